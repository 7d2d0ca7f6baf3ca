//! The step forms.

use super::{Body, Scalar, ValueId, VariableId};
use crate::array::Array;
use crate::names::{AxisList, Mesh, ReduceKind};
use smallvec::SmallVec;
use std::sync::Arc;

/// Sizes, one per dim.
pub type Extents = SmallVec<[usize; 6]>;
/// Dim labels, one per dim.
pub type Dims = SmallVec<[u8; 6]>;

/// An input of a step with a label for each of its dims.
///
/// Labels name the dims of the step's iteration space. The result's dims are labelled `0..rank`
/// in declared order; labels from `rank` on are summed (or otherwise reduced) away. A label that an
/// input lacks is broadcast.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// The value read.
    pub value: ValueId,
    /// One label per dim of the value, in declared order; no label twice.
    pub dims: Dims,
}

/// A position that may depend on the processor: `base + group_index(axes) * scale`, in elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Offset {
    /// The same on every processor.
    pub base: usize,
    /// Axes whose group index counts, major first.
    pub axes: AxisList,
    /// Elements per group index; below 0, positions go back.
    pub scale: i64,
}

impl Offset {
    /// The same position on every processor.
    pub fn fixed(base: usize) -> Self {
        Self { base, ..Self::default() }
    }

    /// `group_index(axes) * scale`.
    pub fn sliced(axes: &[crate::names::Axis], scale: usize) -> Self {
        if axes.is_empty() {
            return Self::default();
        }
        Self { base: 0, axes: axes.iter().copied().collect(), scale: scale as i64 }
    }

    /// The position on one processor.
    pub fn at(&self, mesh: &Mesh, processor: usize) -> usize {
        let along = mesh.group_index(processor, &self.axes) as i64 * self.scale;
        self.base.saturating_add_signed(along as isize)
    }
}

/// One rectangular copy of a [`Step::Move`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Piece {
    /// What is copied; every label is a dim of the result.
    pub input: Operand,
    /// Where reading begins, per dim of the input.
    pub begin: SmallVec<[Offset; 4]>,
    /// Where writing begins, per dim of the result.
    pub at: Extents,
    /// How much is written, per dim of the result.
    pub extents: Extents,
}

/// Ties three labels of a [`Step::Convolve`]:
/// `input = stride * output + dilation * kernel - pad`; terms outside the input are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Label of the position in the (unpadded) input image.
    pub input: u8,
    /// Label of the position in the kernel.
    pub kernel: u8,
    /// Label of the position in the output image.
    pub output: u8,
    /// Input positions per output position.
    pub stride: usize,
    /// Input positions per kernel position.
    pub dilation: usize,
    /// Zeros before the input's first position.
    pub pad: usize,
}

/// Where a generated value's elements come from. Positions are global, so slices agree under every
/// layout.
#[derive(Clone, PartialEq, Debug)]
pub enum Generator {
    /// Every element the same.
    Fill(Scalar),
    /// The global index along one dim.
    Iota(u8),
    /// A slice of data known when the program was made; global shape.
    Table(Arc<Array>),
    /// Uniform in `[low, high)` by Philox4x32-10.
    Uniform {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Least value.
        low: f64,
        /// Bound above.
        high: f64,
    },
    /// Normal, cut at two standard deviations, by inverse CDF.
    TruncatedNormal {
        /// Hash of the unique name of what is generated.
        key: u64,
        /// Mean before cutting.
        mean: f64,
        /// Standard deviation before cutting.
        stddev: f64,
    },
}

/// What a processor does next.
///
/// Local forms read and write the processor's own values. Collective forms are met by every member
/// of the processor's group along `axes`; a reduction is a left fold over the group index.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// `outs[k][i] = body(inputs at i).k` for every `i` of the outs' common extents.
    Map {
        /// One result per out.
        body: Body,
        /// Inputs of the body.
        inputs: Vec<Operand>,
        /// All of equal extents.
        outs: SmallVec<[ValueId; 1]>,
    },
    /// `out[i] = fold(kind) over the labels out lacks`.
    Reduce {
        /// How to fold.
        kind: ReduceKind,
        /// What is folded.
        input: Operand,
        /// The result.
        out: ValueId,
    },
    /// `out[i] = sum over the labels out lacks of lhs * rhs`.
    Contract {
        /// First factor.
        lhs: Operand,
        /// Second factor.
        rhs: Operand,
        /// The result.
        out: ValueId,
    },
    /// As `Contract`, with some labels tied to others by windows. Which of input, kernel and output
    /// image is the result is a matter of labels: forward convolution and both its gradients.
    Convolve {
        /// First factor.
        lhs: Operand,
        /// Second factor.
        rhs: Operand,
        /// At least one.
        windows: SmallVec<[Window; 2]>,
        /// The result.
        out: ValueId,
    },
    /// Copies rectangles into the result; what no piece covers is `fill`.
    Move {
        /// The copies, in order.
        pieces: Vec<Piece>,
        /// Value of uncovered elements.
        fill: Scalar,
        /// The result.
        out: ValueId,
    },
    /// The same elements in declared order, under other extents.
    Reshape {
        /// What is read.
        input: ValueId,
        /// The result.
        out: ValueId,
    },
    /// Elements made from their global positions.
    Generate {
        /// How.
        generator: Generator,
        /// Global position of the slice's first element, per dim.
        begin: SmallVec<[Offset; 4]>,
        /// Global extents, per dim.
        global: Extents,
        /// The result.
        out: ValueId,
    },
    /// Folds each input over the group; every member gets every result whole.
    AllReduce {
        /// How to fold.
        kind: ReduceKind,
        /// The group.
        axes: AxisList,
        /// One per out.
        inputs: SmallVec<[ValueId; 1]>,
        /// Of the same type as the inputs.
        outs: SmallVec<[ValueId; 1]>,
    },
    /// Concatenates the members' inputs along a dim.
    AllGather {
        /// The group.
        axes: AxisList,
        /// Dim of the concatenation.
        dim: u8,
        /// This processor's part.
        input: ValueId,
        /// The whole.
        out: ValueId,
    },
    /// Folds over the group; each member gets its part along a dim.
    ReduceScatter {
        /// How to fold.
        kind: ReduceKind,
        /// The group.
        axes: AxisList,
        /// Dim that is cut.
        dim: u8,
        /// Whole along `dim`.
        input: ValueId,
        /// This processor's part.
        out: ValueId,
    },
    /// Cuts along one dim, gives part `k` to member `k`, concatenates what arrives along another.
    AllToAll {
        /// The group.
        axes: AxisList,
        /// Dim that is cut.
        split: u8,
        /// Dim of the concatenation.
        concat: u8,
        /// Whole along `split`.
        input: ValueId,
        /// Whole along `concat`.
        out: ValueId,
    },
    /// Member `i` gets the input of member `i - shift`; zeros come from beyond the ends unless
    /// `wrap`.
    Permute {
        /// The group.
        axes: AxisList,
        /// How far values travel along the group index.
        shift: i64,
        /// Whether the ends meet.
        wrap: bool,
        /// What is sent.
        input: ValueId,
        /// What arrives.
        out: ValueId,
    },
    /// A variable's slice as it was when the call started.
    Read {
        /// Which.
        variable: VariableId,
        /// The slice.
        out: ValueId,
    },
    /// Sets a variable's slice when the call ends.
    Write {
        /// Which.
        variable: VariableId,
        /// The new slice.
        input: ValueId,
    },
}

impl Step {
    /// The form's name, as printed.
    pub fn form(&self) -> &'static str {
        match self {
            Self::Map { .. } => "map",
            Self::Reduce { .. } => "reduce",
            Self::Contract { .. } => "contract",
            Self::Convolve { .. } => "convolve",
            Self::Move { .. } => "move",
            Self::Reshape { .. } => "reshape",
            Self::Generate { .. } => "generate",
            Self::AllReduce { .. } => "all_reduce",
            Self::AllGather { .. } => "all_gather",
            Self::ReduceScatter { .. } => "reduce_scatter",
            Self::AllToAll { .. } => "all_to_all",
            Self::Permute { .. } => "permute",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
        }
    }

    /// The group of a collective; `None` for local forms.
    pub fn axes(&self) -> Option<&AxisList> {
        match self {
            Self::AllReduce { axes, .. }
            | Self::AllGather { axes, .. }
            | Self::ReduceScatter { axes, .. }
            | Self::AllToAll { axes, .. }
            | Self::Permute { axes, .. } => Some(axes),
            _ => None,
        }
    }

    /// Values read, with repetitions, in a fixed order.
    pub fn inputs(&self) -> SmallVec<[ValueId; 4]> {
        match self {
            Self::Map { inputs, .. } => inputs.iter().map(|o| o.value).collect(),
            Self::Reduce { input, .. } => SmallVec::from_slice(&[input.value]),
            Self::Contract { lhs, rhs, .. } | Self::Convolve { lhs, rhs, .. } => {
                SmallVec::from_slice(&[lhs.value, rhs.value])
            }
            Self::Move { pieces, .. } => pieces.iter().map(|p| p.input.value).collect(),
            Self::AllReduce { inputs, .. } => inputs.iter().copied().collect(),
            Self::Reshape { input, .. }
            | Self::AllGather { input, .. }
            | Self::ReduceScatter { input, .. }
            | Self::AllToAll { input, .. }
            | Self::Permute { input, .. }
            | Self::Write { input, .. } => SmallVec::from_slice(&[*input]),
            Self::Generate { .. } | Self::Read { .. } => SmallVec::new(),
        }
    }

    /// Values defined.
    pub fn outs(&self) -> SmallVec<[ValueId; 1]> {
        match self {
            Self::Map { outs, .. } | Self::AllReduce { outs, .. } => outs.clone(),
            Self::Reduce { out, .. }
            | Self::Contract { out, .. }
            | Self::Convolve { out, .. }
            | Self::Move { out, .. }
            | Self::Reshape { out, .. }
            | Self::Generate { out, .. }
            | Self::AllGather { out, .. }
            | Self::ReduceScatter { out, .. }
            | Self::AllToAll { out, .. }
            | Self::Permute { out, .. }
            | Self::Read { out, .. } => SmallVec::from_slice(&[*out]),
            Self::Write { .. } => SmallVec::new(),
        }
    }

    /// Visits every value read, so that a pass can replace it.
    pub fn each_input(&mut self, mut visit: impl FnMut(&mut ValueId)) {
        match self {
            Self::Map { inputs, .. } => inputs.iter_mut().for_each(|o| visit(&mut o.value)),
            Self::Reduce { input, .. } => visit(&mut input.value),
            Self::Contract { lhs, rhs, .. } | Self::Convolve { lhs, rhs, .. } => {
                visit(&mut lhs.value);
                visit(&mut rhs.value);
            }
            Self::Move { pieces, .. } => {
                pieces.iter_mut().for_each(|piece| visit(&mut piece.input.value));
            }
            Self::AllReduce { inputs, .. } => inputs.iter_mut().for_each(visit),
            Self::Reshape { input, .. }
            | Self::AllGather { input, .. }
            | Self::ReduceScatter { input, .. }
            | Self::AllToAll { input, .. }
            | Self::Permute { input, .. }
            | Self::Write { input, .. } => visit(input),
            Self::Generate { .. } | Self::Read { .. } => {}
        }
    }

    /// Visits every value defined, so that a pass can renumber it.
    pub fn each_out(&mut self, mut visit: impl FnMut(&mut ValueId)) {
        match self {
            Self::Map { outs, .. } | Self::AllReduce { outs, .. } => {
                outs.iter_mut().for_each(visit);
            }
            Self::Reduce { out, .. }
            | Self::Contract { out, .. }
            | Self::Convolve { out, .. }
            | Self::Move { out, .. }
            | Self::Reshape { out, .. }
            | Self::Generate { out, .. }
            | Self::AllGather { out, .. }
            | Self::ReduceScatter { out, .. }
            | Self::AllToAll { out, .. }
            | Self::Permute { out, .. }
            | Self::Read { out, .. } => visit(out),
            Self::Write { .. } => {}
        }
    }

    /// Whether it does something besides defining its outs.
    pub fn has_effect(&self) -> bool {
        matches!(self, Self::Write { .. })
    }
}
