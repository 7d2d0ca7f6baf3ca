//! What a collective does, as data.

use smallvec::SmallVec;

use super::super::strided::Walk;
use super::fold::Fold;
use crate::program::{Extents, FoldOrder};

/// A collective among the members of a group, each of which describes its own buffers. `rank` is the
/// member's index in the group. Reductions are left folds over the group index, or in the order stated,
/// the same bits on every member. Inputs and outs are disjoint unless stated.
#[derive(Clone, Debug)]
pub(crate) enum Collective {
    /// `part.out = fold of the members' part.input`, for every part. In place if `out` is `input`.
    AllReduce { fold: Fold, order: FoldOrder, parts: Parts },
    /// `out[o][member] = input[o]` of each member, for `outer` chunks of `chunk` bytes.
    AllGather { outer: usize, chunk: usize, input: *const u8, out: *mut u8 },
    /// `out[o] = fold of the members' input[o][rank]`, for `outer` chunks of `chunk` elements.
    ReduceScatter { fold: Fold, outer: usize, chunk: usize, input: *const u8, out: *mut u8 },
    /// Piece `rank` of each member's input becomes piece `member` of `out`.
    AllToAll { exchange: Box<Exchange>, input: *const u8, out: *mut u8 },
    /// `out` = the input of member `source`, zeros if there is none. `target` is the member of which
    /// this one is the source.
    Permute {
        source: Option<usize>,
        #[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "threads only fetch"))]
        target: Option<usize>,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    },
    /// `out = fold of the members' inputs` of `elements` at member `root`; the others may have no `out`.
    ReduceTo { fold: Fold, root: usize, elements: usize, input: *const u8, out: *mut u8 },
    /// `out` = the input of member `root`. The others may have no `input`.
    Broadcast { root: usize, bytes: usize, input: *const u8, out: *mut u8 },
}

/// The buffers of an all-reduce. One takes no allocation.
pub(crate) type Parts = SmallVec<[Part; 1]>;

/// One of the buffers of an all-reduce.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// What is folded.
    pub(crate) input: *const u8,
    /// Where the fold goes. It is the input's buffer or disjoint from every buffer of the call.
    pub(crate) out: *mut u8,
    /// How many elements both hold.
    pub(crate) elements: usize,
}

impl Collective {
    /// Whether numbers of several members become one.
    pub(in crate::exec) fn folds(&self) -> bool {
        match self {
            Self::AllReduce { .. } | Self::ReduceScatter { .. } | Self::ReduceTo { .. } => true,
            Self::AllGather { .. }
            | Self::AllToAll { .. }
            | Self::Permute { .. }
            | Self::Broadcast { .. } => false,
        }
    }
}

/// How an all-to-all cuts its input and joins what arrives.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "threads send nothing"))]
pub(crate) struct Exchange {
    /// Copies one piece.
    pub(crate) walk: Walk,
    /// Copies a piece of an input to where it lies alone, as it is sent, and
    pub(crate) pack: Walk,
    /// from there into a result.
    pub(crate) unpack: Walk,
    /// Bytes between the pieces for two neighbours in the input.
    pub(crate) from: usize,
    /// Bytes between the pieces of two neighbours in the result.
    pub(crate) to: usize,
    /// Size of the input, which is also the result's.
    pub(crate) bytes: usize,
}

impl Exchange {
    /// Cuts an input of `extents` (in memory order) along `split` into `members` pieces that are
    /// joined along `concat`. `members` divides the extent of `split`.
    pub(crate) fn new(
        extents: &[usize],
        split: usize,
        concat: usize,
        members: usize,
        element: usize,
    ) -> Self {
        let mut piece = Extents::from_slice(extents);
        piece[split] /= members;
        let mut result = piece.clone();
        result[concat] *= members;
        let strides = |extents: &[usize]| {
            let mut strides = Extents::from_elem(element, extents.len());
            for dim in (1..extents.len()).rev() {
                strides[dim - 1] = strides[dim] * extents[dim];
            }
            strides
        };
        let (from, to) = (strides(extents), strides(&result));
        let walk = |from: &[usize], to: &[usize]| {
            let dims = (0..piece.len()).map(|d| (piece[d], from[d] as isize, to[d] as isize));
            Walk::new(dims, element)
        };
        let alone = strides(&piece);
        Self {
            walk: walk(&from, &to),
            pack: walk(&from, &alone),
            unpack: walk(&alone, &to),
            from: piece[split] * from[split],
            to: piece[concat] * to[concat],
            bytes: extents.iter().product::<usize>() * element,
        }
    }
}
