//! The step forms.

use super::{Body, Generator, Opaque, Rounds, Scalar, ValueId, VariableId};
use crate::names::{AxisList, Mesh, ReduceKind};
use smallvec::SmallVec;

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
    pub begin: Vec<Offset>,
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

/// In which order an all-reduce folds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FoldOrder {
    /// From the first member of the group to the last.
    #[default]
    Group,
    /// The inputs, one after the other, are cut into as many shares as there are members, share `k`
    /// from element `n k / members / 64 * 64` on; it is folded from member `k + 1` on, around to
    /// member `k`: what a ring of neighbours does that pass on what they have.
    Ring,
}

impl FoldOrder {
    /// Where shares begin.
    pub const SHARE: usize = 64;
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
        /// Scalars of i32 that are mixed into the key of random numbers, in order: the step, the
        /// rounds of loops.
        salts: SmallVec<[ValueId; 1]>,
        /// Global position of the slice's first element, per dim.
        begin: Vec<Offset>,
        /// Global extents, per dim.
        global: Extents,
        /// The result.
        out: ValueId,
    },
    /// `out[..] = input[.., indices[..] - begin, ..]`; zero (or false) where that is outside the
    /// input. StableHLO: gather, and a select where the index is out of range.
    Gather {
        /// What is looked up; its labels are result labels and `dim`.
        input: Operand,
        /// Positions along `dim`, i32; its labels are result labels.
        indices: Operand,
        /// The input's label that the result lacks.
        dim: u8,
        /// The index that means the input's first position along `dim`.
        begin: Offset,
        /// The result.
        out: ValueId,
    },
    /// `out[.., p, ..] = sum of the updates for which indices[..] - begin = p`, added in the declared
    /// order of the updates. Indices outside the result add nothing. StableHLO: scatter with add.
    Scatter {
        /// What is added; its labels are those of the result but `dim`, and any that are summed.
        updates: Operand,
        /// Positions along `dim`, i32; its labels are labels of the updates.
        indices: Operand,
        /// The result's label that is indexed.
        dim: u8,
        /// The index that means the result's first position along `dim`.
        begin: Offset,
        /// The result.
        out: ValueId,
    },
    /// Sorts every line along `dim` by the first input, the others alike, and keeps as many elements
    /// as the outs are long. Equal keys stay in order; zeros are equal, and NaN is greater than all
    /// else and equal to itself. StableHLO: sort, and a slice.
    Sort {
        /// Keys, then what goes with them; labels an input lacks are broadcast. The keys have all.
        inputs: SmallVec<[Operand; 2]>,
        /// Label of the dim along which elements are sorted.
        dim: u8,
        /// Whether the greatest come first.
        descending: bool,
        /// One per input, of its dtype.
        outs: SmallVec<[ValueId; 1]>,
    },
    /// `out[.., i, ..] = fold(kind) over the input's positions 0..=i along dim`, one after another.
    /// StableHLO: reduce_window as long as the dim, padded on one side.
    Scan {
        /// How to fold.
        kind: ReduceKind,
        /// What is folded.
        input: ValueId,
        /// Position of the dim among the input's.
        dim: u8,
        /// Whether position `i` itself is left out.
        exclusive: bool,
        /// Whether to fold from the last position down.
        reverse: bool,
        /// Of the type of the input.
        out: ValueId,
    },
    /// Whatever a user's kernel makes of the inputs. StableHLO: custom_call of the kernel's name.
    Call {
        /// How.
        kernel: Opaque,
        /// What it reads, in declared order.
        inputs: SmallVec<[ValueId; 2]>,
        /// What it fills, in declared order.
        outs: SmallVec<[ValueId; 1]>,
    },
    /// Folds each input over the group; every member gets every result whole.
    AllReduce {
        /// How to fold.
        kind: ReduceKind,
        /// In which order.
        order: FoldOrder,
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
    /// Folds over the group for one member; the others' out holds nothing. No StableHLO collective
    /// does less than give it to all.
    ReduceTo {
        /// How to fold.
        kind: ReduceKind,
        /// The group.
        axes: AxisList,
        /// Group index of the member that gets the result.
        root: usize,
        /// What is folded.
        input: ValueId,
        /// The result, at `root` only.
        out: ValueId,
    },
    /// Gives every member what one of them has (StableHLO's collective_broadcast).
    Broadcast {
        /// The group.
        axes: AxisList,
        /// Group index of the member whose input it is.
        root: usize,
        /// What is sent, at `root`.
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
    /// The inputs, once all of them are there. Never merged with equal steps, so that what is
    /// computed from an out is computed anew (StableHLO's optimization_barrier).
    Barrier {
        /// One per out.
        inputs: SmallVec<[ValueId; 1]>,
        /// Of the inputs' types.
        outs: SmallVec<[ValueId; 1]>,
    },
    /// Waits for a collective, which is therefore only begun where it stands: what stands between the
    /// two runs beside it. (StableHLO's async_start and async_done.)
    Await {
        /// The collective's.
        inputs: SmallVec<[ValueId; 1]>,
        /// The collective's outs, which nobody uses before.
        begun: SmallVec<[ValueId; 1]>,
    },
    /// Runs a program again and again (StableHLO's while).
    Loop(Box<Rounds>),
}
