//! What an op's local body sees: one processor's slices, with named dims.

use super::table::Setting;
use crate::graph::{OpError, Signature};
use crate::names::{AxisList, DType, DimName, Placement, ReduceKind, Shape};
use crate::program::{Builder, Expr, Extents, Offset, Piece, Scalar, Slot, ValueId, Window};
use crate::split::{Collective, Role, SplitRule};
use dims::{Labels, fault, position, resized};

mod call;
mod dims;
mod index;
mod structural;

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
/// [`finish`](Self::finish) once for each output. What names a dim that the values at hand do not have
/// is an error, which lowering reports with the operation and the user's line.
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

    /// The axes a dim of an input or output is split over, major first.
    pub fn axes(&self, dim: DimName) -> Result<AxisList, OpError> {
        let mut types = self.signature.inputs.iter().chain(self.signature.outputs);
        if !types.any(|ty| ty.shape.contains(dim)) {
            return Err(OpError::new(format!("axes: no input or output has dim {dim}")));
        }
        let axes = self.placements.iter().map(|p| p.axes(dim)).find(|axes| !axes.is_empty());
        Ok(AxisList::from_slice(axes.unwrap_or_default()))
    }

    /// Into how many parts a dim of an input or output is cut.
    pub fn parts(&self, dim: DimName) -> Result<usize, OpError> {
        Ok(self.builder.mesh().group_size(&self.axes(dim)?))
    }

    /// The dtype of a value.
    pub fn dtype(&self, value: &Local) -> DType {
        self.builder.value(value.id).dtype
    }

    /// Declares output `i`; the dims may stand in another order than declared.
    pub fn finish(&mut self, i: usize, value: Local) -> Result<(), OpError> {
        if i >= self.outputs.len() {
            return Err(fault("finish", format!("there is no output {i}")));
        }
        let want = self.output_shape(i);
        if !value.shape.is_permutation_of(&want) {
            let message =
                format!("a processor's slice of output {i} is {want}, not {}", value.shape);
            return Err(fault("finish", message));
        }
        let order: Vec<_> = want.names().collect();
        self.outputs[i] = Some(self.transpose(&value, &order)?);
        Ok(())
    }

    /// Output 0 is input `i`, untouched.
    pub fn forward(&mut self, i: usize) -> Result<(), OpError> {
        self.finish(0, self.input(i))
    }

    /// The same value with other dim names, of equal sizes.
    pub fn renamed(&self, value: &Local, shape: Shape) -> Result<Local, OpError> {
        if value.shape.sizes() != shape.sizes() {
            return Err(fault("renamed", format!("{} has other sizes than {shape}", value.shape)));
        }
        Ok(Local::new(value.id, shape))
    }

    /// `expr` of `inputs`, element by element over `shape`; a dim an input lacks is broadcast.
    pub fn map_over(
        &mut self,
        shape: &Shape,
        inputs: &[Local],
        expr: &Expr,
        dtype: DType,
    ) -> Result<Local, OpError> {
        let labels = Labels::new("map_over", shape, []);
        let operands = inputs.iter().map(|input| labels.operand(input));
        let operands = operands.collect::<Result<_, _>>()?;
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
    pub fn reduce(
        &mut self,
        kind: ReduceKind,
        value: &Local,
        onto: &Shape,
    ) -> Result<Local, OpError> {
        let labels = Labels::folding("reduce", onto, &[&value.shape])?;
        let id = self.builder.reduce(kind, labels.operand(value)?, extents(onto));
        Ok(Local::new(id, onto.clone()))
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
        let labels = Labels::folding("contract", onto, &[&lhs.shape, &rhs.shape])?;
        let (l, r) = (labels.operand(&lhs)?, labels.operand(&rhs)?);
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
        let labels = Labels::new("convolve", onto, [&lhs.shape, &rhs.shape]);
        let (l, r) = (labels.operand(&lhs)?, labels.operand(&rhs)?);
        let window = |w: &LocalWindow| {
            Ok(Window {
                input: labels.of(w.input)?,
                kernel: labels.of(w.kernel)?,
                output: labels.of(w.output)?,
                stride: w.stride,
                dilation: w.dilation,
                pad: w.pad,
            })
        };
        let windows = windows.iter().map(window).collect::<Result<_, OpError>>()?;
        let id = self.builder.convolve(l, r, windows, extents(onto));
        self.cast(&Local::new(id, onto.clone()), dtype)
    }

    /// The value with its dims in this order, which names each of them once.
    pub fn transpose(&mut self, value: &Local, order: &[DimName]) -> Result<Local, OpError> {
        if value.shape.names().eq(order.iter().copied()) {
            return Ok(value.clone());
        }
        let at = |&name| position("transpose", &value.shape, name);
        let positions = order.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let dims = positions.iter().map(|&position| value.shape.dims()[position]);
        let shape = Shape::new(dims).map_err(|error| fault("transpose", error))?;
        if let Some(left) = value.shape.names().find(|name| !shape.contains(*name)) {
            return Err(fault("transpose", format!("dim {left} of {} is left out", value.shape)));
        }
        let positions: Vec<_> = positions.into_iter().map(|position| position as u8).collect();
        let id = self.builder.transpose(value.id, &positions);
        Ok(Local::new(id, shape))
    }

    /// Part of a value along one dim; `begin` may depend on the processor.
    pub fn cut(
        &mut self,
        value: &Local,
        dim: DimName,
        begin: Offset,
        size: usize,
    ) -> Result<Local, OpError> {
        let shape = resized("cut", &value.shape, dim, size)?;
        let begin_of = |name| if name == dim { begin.clone() } else { Offset::default() };
        let begins = shape.names().map(begin_of).collect();
        let id = self.builder.cut(value.id, begins, extents(&shape));
        Ok(Local::new(id, shape))
    }

    /// Rectangles copied into a value of `shape`; what none covers is `fill`.
    pub fn assemble(
        &mut self,
        pieces: &[LocalPiece],
        fill: Scalar,
        shape: &Shape,
    ) -> Result<Local, OpError> {
        let labels = Labels::new("assemble", shape, []);
        let build = |piece: &LocalPiece| {
            let input = labels.operand(&piece.input)?;
            for &(dim, _) in &piece.begin {
                position("assemble", &piece.input.shape, dim)?;
            }
            for &(dim, _) in piece.at.iter().chain(&piece.size) {
                labels.of(dim)?;
            }
            let begin =
                piece.input.shape.names().map(|n| find(&piece.begin, n).unwrap_or_default());
            let at = shape.names().map(|n| find(&piece.at, n).unwrap_or(0)).collect();
            let whole = |n, size| piece.input.shape.get(n).map_or(size, |d| d.size);
            let extents = shape
                .iter()
                .map(|d| find(&piece.size, d.name).unwrap_or(whole(d.name, d.size)))
                .collect();
            Ok((input, Piece { begin: begin.collect(), at, extents }))
        };
        let pieces = pieces.iter().map(build).collect::<Result<Vec<_>, OpError>>()?;
        let id = self.builder.assemble(pieces, fill, extents(shape));
        Ok(Local::new(id, shape.clone()))
    }

    /// The same elements in declared order, under another shape.
    pub fn reshape(&mut self, value: &Local, shape: &Shape) -> Result<Local, OpError> {
        if value.shape.sizes() == shape.sizes() {
            return self.renamed(value, shape.clone());
        }
        if value.shape.size() != shape.size() {
            let message = format!("{} has another number of elements than {shape}", value.shape);
            return Err(fault("reshape", message));
        }
        let id = self.builder.reshape(value.id, extents(shape));
        Ok(Local::new(id, shape.clone()))
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
                self.axes(dim)
            }
            role => Err(OpError::new(format!("{needs:?} along {dim}, whose role is {role}"))),
        }
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
