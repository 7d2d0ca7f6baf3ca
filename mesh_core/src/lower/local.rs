//! What an op's local body sees: one processor's slices, with named dims.

use super::table::Setting;
use crate::graph::{OpError, Signature};
use crate::names::{AxisList, DType, DimName, Placement, ReduceKind, Shape};
use crate::program::{
    Builder, Expr, Extents, Offset, Operand, Piece, Scalar, Slot, ValueId, VariableId, Window,
};
use crate::split::{Collective, Role, SplitRule};
use smallvec::SmallVec;

mod call;
mod index;

/// A value of the program under construction, with the names and local sizes of its dims.
#[derive(Clone, PartialEq, Debug)]
pub struct Local {
    pub(crate) id: ValueId,
    shape: Shape,
}

impl Local {
    pub(crate) fn new(id: ValueId, shape: Shape) -> Self {
        Self { id, shape }
    }

    /// Dims in the value's order, local sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}

/// One rectangle of [`LocalCx::assemble`].
#[derive(Clone, Debug)]
pub struct LocalPiece {
    /// What is copied.
    pub input: Local,
    /// Where reading begins along dims other than 0; may depend on the processor.
    pub begin: Vec<(DimName, Offset)>,
    /// Where writing begins along dims other than 0.
    pub at: Vec<(DimName, usize)>,
    /// How much is copied along dims where that is not the input's whole extent.
    pub size: Vec<(DimName, usize)>,
}

impl LocalPiece {
    /// The whole of `input`, written from 0.
    pub fn whole(input: Local) -> Self {
        Self { input, begin: Vec::new(), at: Vec::new(), size: Vec::new() }
    }
}

/// Ties three dims of a convolution: `input = stride * output + dilation * kernel - pad`.
#[derive(Clone, Copy, Debug)]
pub struct LocalWindow {
    /// Dim of the input image.
    pub input: DimName,
    /// Dim of the kernel.
    pub kernel: DimName,
    /// Dim of the output image.
    pub output: DimName,
    /// Input positions per output position.
    pub stride: usize,
    /// Input positions per kernel position.
    pub dilation: usize,
    /// Zeros before the first input position.
    pub pad: usize,
}

/// Builds the steps of one operation on one processor's slices.
///
/// Shapes are local; [`signature`](Self::signature) has the global ones. A body calls
/// [`finish`](Self::finish) once for each output.
pub struct LocalCx<'a, 'm> {
    pub(crate) builder: &'a mut Builder<'m>,
    pub(crate) setting: &'a Setting<'a>,
    pub(crate) signature: Signature<'a>,
    pub(crate) inputs: Vec<Local>,
    /// Of the outputs, then of the inputs.
    pub(crate) placements: Vec<&'a Placement>,
    pub(crate) rule: SplitRule,
    pub(crate) outputs: Vec<Option<Local>>,
}

impl LocalCx<'_, '_> {
    /// Global types.
    pub fn signature(&self) -> Signature<'_> {
        self.signature
    }

    /// Input `i`.
    pub fn input(&self, i: usize) -> Local {
        self.inputs[i].clone()
    }

    /// All inputs.
    pub fn inputs(&self) -> Vec<Local> {
        self.inputs.clone()
    }

    /// Local shape of output `i`.
    pub fn output_shape(&self, i: usize) -> Shape {
        let global = &self.signature.outputs[i].shape;
        let local = self.placements[i].local_shape(self.builder.mesh(), global);
        local.unwrap_or_else(|| global.clone())
    }

    /// The dtype output `i` is made in: partial sums are held in their reduction dtype.
    pub fn output_dtype(&self, i: usize) -> DType {
        self.placements[i].held(self.signature.outputs[i].dtype)
    }

    /// The axes a dim is split over, major first.
    pub fn axes(&self, dim: DimName) -> AxisList {
        let axes = self.placements.iter().map(|p| p.axes(dim)).find(|axes| !axes.is_empty());
        AxisList::from_slice(axes.unwrap_or_default())
    }

    /// Into how many parts a dim is cut.
    pub fn parts(&self, dim: DimName) -> usize {
        self.builder.mesh().group_size(&self.axes(dim))
    }

    /// The dtype of a value.
    pub fn dtype(&self, value: &Local) -> DType {
        self.builder.value(value.id).dtype
    }

    /// Declares output `i`; the dims may stand in another order than declared.
    pub fn finish(&mut self, i: usize, value: Local) {
        let order: Vec<_> = self.signature.outputs[i].shape.names().collect();
        let value = self.transpose(&value, &order);
        self.outputs[i] = Some(value);
    }

    /// Output 0 is input `i`, untouched.
    pub fn forward(&mut self, i: usize) {
        let input = self.input(i);
        self.finish(0, input);
    }

    /// The same value with other dim names (and equal sizes).
    pub fn renamed(&self, value: &Local, shape: Shape) -> Local {
        Local::new(value.id, shape)
    }

    fn operand(&self, value: &Local, label: impl Fn(DimName) -> u8) -> Operand {
        Operand { value: value.id, dims: value.shape.names().map(label).collect() }
    }

    /// `expr` of `inputs`, element by element over `shape`; a dim an input lacks is broadcast.
    pub fn map_over(
        &mut self,
        shape: &Shape,
        inputs: &[Local],
        expr: &Expr,
        dtype: DType,
    ) -> Result<Local, OpError> {
        let mut operands = Vec::new();
        for input in inputs {
            if let Some(stray) = input.shape.names().find(|&name| !shape.contains(name)) {
                return Err(OpError::new(format!("dim {stray} is not among {shape}")));
            }
            operands.push(self.operand(input, |n| shape.position(n).unwrap_or(0) as u8));
        }
        let id = self.builder.map(operands, extents(shape), expr, dtype)?;
        Ok(Local::new(id, shape.clone()))
    }

    /// `expr` of `inputs` over the union of their dims.
    pub fn map(&mut self, inputs: &[Local], expr: &Expr, dtype: DType) -> Result<Local, OpError> {
        let mut shape = Shape::scalar();
        for input in inputs {
            shape = shape.union(&input.shape)?;
        }
        self.map_over(&shape, inputs, expr, dtype)
    }

    /// The value in another dtype.
    pub fn cast(&mut self, value: &Local, dtype: DType) -> Result<Local, OpError> {
        if self.dtype(value) == dtype {
            return Ok(value.clone());
        }
        self.map(std::slice::from_ref(value), &Expr::input(0).cast(dtype), dtype)
    }

    /// Folds the dims that `onto` lacks.
    pub fn reduce(&mut self, kind: ReduceKind, value: &Local, onto: &Shape) -> Local {
        let labels = Labels::new(onto, [&value.shape]);
        let operand = self.operand(value, |n| labels.of(n));
        let id = self.builder.reduce(kind, operand, extents(onto));
        Local::new(id, onto.clone())
    }

    /// Sum of products over the dims that `onto` lacks, in `dtype`. bf16 factors are widened.
    pub fn contract(
        &mut self,
        lhs: &Local,
        rhs: &Local,
        onto: &Shape,
        dtype: DType,
    ) -> Result<Local, OpError> {
        let wide = dtype.reduction();
        let (lhs, rhs) = (self.cast(lhs, wide)?, self.cast(rhs, wide)?);
        let labels = Labels::new(onto, [&lhs.shape, &rhs.shape]);
        let (l, r) = (self.operand(&lhs, |n| labels.of(n)), self.operand(&rhs, |n| labels.of(n)));
        let id = self.builder.contract(l, r, extents(onto));
        self.cast(&Local::new(id, onto.clone()), dtype)
    }

    /// As `contract`, with dims tied by windows.
    pub fn convolve(
        &mut self,
        lhs: &Local,
        rhs: &Local,
        windows: &[LocalWindow],
        onto: &Shape,
        dtype: DType,
    ) -> Result<Local, OpError> {
        let wide = dtype.reduction();
        let (lhs, rhs) = (self.cast(lhs, wide)?, self.cast(rhs, wide)?);
        let labels = Labels::new(onto, [&lhs.shape, &rhs.shape]);
        let (l, r) = (self.operand(&lhs, |n| labels.of(n)), self.operand(&rhs, |n| labels.of(n)));
        let windows = windows
            .iter()
            .map(|w| Window {
                input: labels.of(w.input),
                kernel: labels.of(w.kernel),
                output: labels.of(w.output),
                stride: w.stride,
                dilation: w.dilation,
                pad: w.pad,
            })
            .collect();
        let id = self.builder.convolve(l, r, windows, extents(onto));
        self.cast(&Local::new(id, onto.clone()), dtype)
    }

    /// The value with its dims in this order.
    pub fn transpose(&mut self, value: &Local, order: &[DimName]) -> Local {
        if value.shape.names().eq(order.iter().copied()) {
            return value.clone();
        }
        let positions: Vec<u8> =
            order.iter().filter_map(|&n| value.shape.position(n)).map(|p| p as u8).collect();
        let dims = positions.iter().map(|&p| value.shape.dims()[p as usize]);
        let shape = Shape::new(dims).unwrap_or_default();
        let id = self.builder.transpose(value.id, &positions);
        Local::new(id, shape)
    }

    /// Part of a value along one dim; `begin` may depend on the processor.
    pub fn cut(&mut self, value: &Local, dim: DimName, begin: Offset, size: usize) -> Local {
        let mut begins = Vec::new();
        let mut dims = Vec::new();
        for d in value.shape.iter() {
            let here = d.name == dim;
            begins.push(if here { begin.clone() } else { Offset::default() });
            dims.push(if here { d.resized(size) } else { d });
        }
        let shape = Shape::new(dims).unwrap_or_default();
        let id = self.builder.cut(value.id, begins, extents(&shape));
        Local::new(id, shape)
    }

    /// Rectangles copied into a value of `shape`; what none covers is `fill`.
    pub fn assemble(&mut self, pieces: &[LocalPiece], fill: Scalar, shape: &Shape) -> Local {
        let build = |piece: &LocalPiece| {
            let input = self.operand(&piece.input, |n| shape.position(n).unwrap_or(0) as u8);
            let begin =
                piece.input.shape.names().map(|n| find(&piece.begin, n).unwrap_or_default());
            let at = shape.names().map(|n| find(&piece.at, n).unwrap_or(0)).collect();
            let whole = |n, size| piece.input.shape.get(n).map_or(size, |d| d.size);
            let extents = shape
                .iter()
                .map(|d| find(&piece.size, d.name).unwrap_or(whole(d.name, d.size)))
                .collect();
            (input, Piece { begin: begin.collect(), at, extents })
        };
        let pieces: Vec<_> = pieces.iter().map(build).collect();
        let id = self.builder.assemble(pieces, fill, extents(shape));
        Local::new(id, shape.clone())
    }

    /// The same elements in declared order, under another shape.
    pub fn reshape(&mut self, value: &Local, shape: &Shape) -> Local {
        if value.shape.sizes() == shape.sizes() {
            return self.renamed(value, shape.clone());
        }
        let id = self.builder.reshape(value.id, extents(shape));
        Local::new(id, shape.clone())
    }

    /// The value of the neighbour `shift` places before along the group of a split dim. The dim's
    /// role must be `Exchange` with `Permute`.
    pub fn permute(
        &mut self,
        dim: DimName,
        shift: i64,
        wrap: bool,
        value: &Local,
    ) -> Result<Local, OpError> {
        let axes = self.exchange(dim, Collective::Permute)?;
        let id = self.builder.permute(&axes, shift, wrap, value.id);
        Ok(Local::new(id, value.shape.clone()))
    }

    fn exchange(&self, dim: DimName, needs: Collective) -> Result<AxisList, OpError> {
        match self.rule.role(dim) {
            Role::Exchange(allowed) | Role::ExchangeReduced(_, allowed)
                if allowed.contains(&needs) =>
            {
                Ok(self.axes(dim))
            }
            role => Err(OpError::new(format!("{needs:?} along {dim}, whose role is {role}"))),
        }
    }

    /// Each value, once all of them have been computed.
    pub(crate) fn barrier(&mut self, values: &[Local]) -> Vec<Local> {
        let ids: Vec<_> = values.iter().map(|value| value.id).collect();
        let outs = self.builder.barrier(&ids);
        outs.into_iter()
            .zip(values)
            .map(|(id, value)| Local::new(id, value.shape.clone()))
            .collect()
    }

    /// Output 0 is fed under this name.
    pub(crate) fn feed(&mut self, name: &str) {
        let shape = self.output_shape(0);
        let slot = slot(name.to_owned(), &self.signature.outputs[0].shape, self.placements[0]);
        let id = self.builder.feed(self.signature.outputs[0].dtype, extents(&shape), slot);
        self.finish(0, Local::new(id, shape));
    }

    /// Output 0 is the variable's slice.
    pub(crate) fn read(&mut self, variable: VariableId) {
        let shape = self.output_shape(0);
        let dtype = self.signature.outputs[0].dtype;
        let id = self.builder.read(variable, dtype, extents(&shape));
        self.finish(0, Local::new(id, shape));
    }

    /// The slice of a variable whose dims and placement are those of `like`.
    pub(crate) fn variable(&mut self, variable: VariableId, like: &Local) -> Local {
        let dtype = self.setting.data.variables[variable.index()].ty.dtype;
        let id = self.builder.read(variable, dtype, extents(&like.shape));
        Local::new(id, like.shape.clone())
    }

    pub(crate) fn write(&mut self, variable: VariableId, value: &Local) {
        self.builder.write(variable, value.id);
    }
}

/// The global array behind a value.
pub(super) fn slot(name: String, global: &Shape, placement: &Placement) -> Slot {
    Slot {
        name,
        shape: global.sizes(),
        split: global.names().map(|n| AxisList::from_slice(placement.axes(n))).collect(),
        ..Slot::default()
    }
}

pub(super) fn extents(shape: &Shape) -> Extents {
    shape.iter().map(|d| d.size).collect()
}

fn find<T: Clone>(list: &[(DimName, T)], name: DimName) -> Option<T> {
    list.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone())
}

/// Labels of dims: positions in the result, then the dims that are folded.
struct Labels {
    names: SmallVec<[DimName; 8]>,
}

impl Labels {
    fn new<'s>(onto: &Shape, inputs: impl IntoIterator<Item = &'s Shape>) -> Self {
        let mut names: SmallVec<[DimName; 8]> = onto.names().collect();
        for name in inputs.into_iter().flat_map(Shape::names) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self { names }
    }

    fn of(&self, name: DimName) -> u8 {
        self.names.iter().position(|n| *n == name).unwrap_or(0) as u8
    }
}
