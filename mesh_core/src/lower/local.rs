//! What an op's local body sees: one processor's slices, with named dims.

use crate::graph::{OpError, Signature};
use crate::names::{AxisList, DType, DimName, Placement, ReduceKind, Shape};
use crate::program::{Builder, Expr, Extents, Offset, PoolKind, Reach, Slot, ValueId, Window};
use crate::split::{Collective, Role, SplitRule};
use dims::{Labels, fault};

mod call;
mod dims;
mod index;
mod moves;
mod repeat;
mod structural;

pub use repeat::{LocalGiven, LocalIteration, LocalLeft};

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

/// Ties two dims of a fold over windows: `stride * output <= input + pad < stride * output + size`.
#[derive(Clone, Copy, Debug)]
pub struct LocalReach {
    /// Dim of the positions that windows see.
    pub input: DimName,
    /// Dim of the windows.
    pub output: DimName,
    /// Positions of a window.
    pub size: usize,
    /// Positions from one window to the next.
    pub stride: usize,
    /// Positions of the first window before the first.
    pub pad: usize,
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
    ///
    /// # Errors
    ///
    /// An input that there is not.
    pub fn input(&self, i: usize) -> Result<Local, OpError> {
        let input = self.inputs.get(i).cloned();
        input.ok_or_else(|| fault("input", format!("there is no input {i}")))
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
    ///
    /// # Errors
    ///
    /// A dim that no input or output has.
    pub fn axes(&self, dim: DimName) -> Result<AxisList, OpError> {
        let mut types = self.signature.inputs.iter().chain(self.signature.outputs);
        if !types.any(|ty| ty.shape.contains(dim)) {
            return Err(OpError::new(format!("axes: no input or output has dim {dim}")));
        }
        let axes = self.placements.iter().map(|p| p.axes(dim)).find(|axes| !axes.is_empty());
        Ok(AxisList::from_slice(axes.unwrap_or_default()))
    }

    /// Into how many parts a dim of an input or output is cut.
    ///
    /// # Errors
    ///
    /// As [`axes`](Self::axes).
    pub fn parts(&self, dim: DimName) -> Result<usize, OpError> {
        Ok(self.builder.mesh().group_size(&self.axes(dim)?))
    }

    /// The dtype of a value.
    pub fn dtype(&self, value: &Local) -> DType {
        self.builder.value(value.id).dtype
    }

    /// Declares output `i`; the dims may stand in another order than declared.
    ///
    /// # Errors
    ///
    /// An output that there is not, or a value that is not its slice.
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
    ///
    /// # Errors
    ///
    /// As [`input`](Self::input) and [`finish`](Self::finish).
    pub fn forward(&mut self, i: usize) -> Result<(), OpError> {
        self.finish(0, self.input(i)?)
    }

    /// The same value with other dim names, of equal sizes.
    ///
    /// # Errors
    ///
    /// A shape of other sizes.
    pub fn renamed(&self, value: &Local, shape: Shape) -> Result<Local, OpError> {
        if value.shape.sizes() != shape.sizes() {
            return Err(fault("renamed", format!("{} has other sizes than {shape}", value.shape)));
        }
        Ok(Local::new(value.id, shape))
    }

    /// `expr` of `inputs`, element by element over `shape`; a dim an input lacks is broadcast.
    ///
    /// # Errors
    ///
    /// An input with a dim that the shape lacks or has in another size, or an expression that does
    /// not fit the inputs' dtypes.
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
    ///
    /// # Errors
    ///
    /// Inputs that have a dim in two sizes, or an expression that does not fit their dtypes.
    pub fn map(&mut self, inputs: &[Local], expr: &Expr, dtype: DType) -> Result<Local, OpError> {
        let mut shape = Shape::scalar();
        for input in inputs {
            shape = shape.union(&input.shape)?;
        }
        self.map_over(&shape, inputs, expr, dtype)
    }

    /// The value in another dtype.
    ///
    /// # Errors
    ///
    /// As [`map`](Self::map).
    pub fn cast(&mut self, value: &Local, dtype: DType) -> Result<Local, OpError> {
        if self.dtype(value) == dtype {
            return Ok(value.clone());
        }
        self.map(std::slice::from_ref(value), &Expr::input(0).cast(dtype), dtype)
    }

    /// Folds the dims that `onto` lacks.
    ///
    /// # Errors
    ///
    /// A dim of `onto` that the value lacks, or has in another size.
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
    ///
    /// # Errors
    ///
    /// A dim that the factors and `onto` have in different sizes, or `onto` alone has.
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
    ///
    /// # Errors
    ///
    /// A window over a dim that nobody has, or a dim of different sizes.
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

    /// What `kind` folds over windows: the inputs' dims along one side of the windows become those along
    /// the other, which `onto` has. See [`Pool`](crate::program::forms::Pool).
    ///
    /// # Errors
    ///
    /// A dim of a window that no value has.
    pub fn pool(
        &mut self,
        kind: PoolKind,
        inputs: &[&Local],
        windows: &[LocalReach],
        onto: &Shape,
    ) -> Result<Local, OpError> {
        let labels = Labels::new("pool", onto, inputs.iter().map(|input| &input.shape));
        let operands =
            inputs.iter().map(|input| labels.operand(input)).collect::<Result<_, _>>()?;
        let reach = |w: &LocalReach| {
            let (input, output) = (labels.of(w.input)?, labels.of(w.output)?);
            Ok(Reach { input, output, size: w.size, stride: w.stride, pad: w.pad })
        };
        let windows = windows.iter().map(reach).collect::<Result<_, OpError>>()?;
        let id = self.builder.pool(kind, operands, windows, extents(onto));
        Ok(Local::new(id, onto.clone()))
    }

    pub(in crate::lower) fn exchange(
        &self,
        dim: DimName,
        needs: Collective,
    ) -> Result<AxisList, OpError> {
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
        dims: global.names().collect(),
        split: global.names().map(|n| AxisList::from_slice(placement.axes(n))).collect(),
        ..Slot::default()
    }
}

pub(super) fn extents(shape: &Shape) -> Extents {
    shape.iter().map(|d| d.size).collect()
}
