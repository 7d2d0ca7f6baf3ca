//! How one processor meets the others of its group.
#![allow(unsafe_code, reason = "collectives work on the peers' buffers")]

use super::fold::Fold;
use super::strided::Walk;
use crate::names::Axis;
use crate::program::{Extents, FoldOrder};

/// Some processor failed, so nobody goes on. The reason is kept where the failure was reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stopped;

/// Which of a processor's two ends of collectives. What meets at one never mixes with what meets at the
/// other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// Its own.
    Processor,
    /// That of its [courier](super::courier).
    Courier,
}

/// A processor's place in a group that its [`Comm`] has prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    /// Which of the processor's groups.
    pub(crate) id: usize,
    /// The processor's group index.
    pub(crate) rank: usize,
    /// How many members meet.
    pub(crate) size: usize,
}

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

/// One processor's end of the collectives.
///
/// Every member of a group calls the same methods with the same sizes in the same order; each
/// returns when the processor may reuse its buffers. Reductions are left folds over the group
/// index, or in the order stated, the same bits on every member. After an error nothing more can be met.
///
/// # Safety
///
/// Of every unsafe method: pointers are aligned to [`ALIGNMENT`](crate::program::ALIGNMENT) and
/// good for the sizes stated; inputs are initialised; while the call runs only `Comm`s touch the
/// buffers, and what they point to outlives the calls of all members. Inputs and outs are disjoint
/// unless stated. A pointer to what a member may lack is neither read nor written.
pub(crate) trait Comm: Send {
    /// Prepares the group along `axes`. All members prepare their groups in the same order.
    fn group(&mut self, axes: &[Axis]) -> Group;

    /// Why something has stopped, for people; nothing if it was because others had.
    fn problem(&mut self) -> Option<String> {
        None
    }

    /// `part.out = fold of the members' part.input`, for every part. In place if `out` is `input`.
    unsafe fn all_reduce(
        &mut self,
        group: Group,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped>;

    /// `out[o][member] = input[o]` of each member, for `outer` chunks of `chunk` bytes.
    unsafe fn all_gather(
        &mut self,
        group: Group,
        outer: usize,
        chunk: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped>;

    /// `out[o] = fold of the members' input[o][rank]`, for `outer` chunks of `chunk` elements.
    unsafe fn reduce_scatter(
        &mut self,
        group: Group,
        fold: Fold,
        outer: usize,
        chunk: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped>;

    /// Piece `rank` of each member's input becomes piece `member` of `out`.
    unsafe fn all_to_all(
        &mut self,
        group: Group,
        exchange: &Exchange,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped>;

    /// `out` = the input of member `rank - shift`, zeros where there is none and not `wrap`.
    unsafe fn permute(
        &mut self,
        group: Group,
        shift: i64,
        wrap: bool,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped>;

    /// `out = fold of the members' inputs` of `elements` at member `root`; the others may have no `out`.
    unsafe fn reduce_to(
        &mut self,
        group: Group,
        fold: Fold,
        root: usize,
        elements: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped>;

    /// `out` = the input of member `root`. The others may have no `input`.
    unsafe fn broadcast(
        &mut self,
        group: Group,
        root: usize,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped>;
}

/// Whose input a member receives from a permutation.
pub(crate) fn source(group: Group, shift: i64, wrap: bool) -> Option<usize> {
    let (rank, size) = (group.rank as i64, group.size as i64);
    let member = if wrap {
        (rank - shift.rem_euclid(size)).rem_euclid(size)
    } else {
        rank.checked_sub(shift)?
    };
    (0..size).contains(&member).then_some(member as usize)
}

/// Who receives a member's input from a permutation.
#[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "threads only fetch"))]
pub(crate) fn destination(group: Group, shift: i64, wrap: bool) -> Option<usize> {
    let (rank, size) = (group.rank as i64, group.size as i64);
    let member =
        if wrap { (rank + shift.rem_euclid(size)) % size } else { rank.checked_add(shift)? };
    (0..size).contains(&member).then_some(member as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_a_permutation() {
        let group = |rank| Group { id: 0, rank, size: 4 };
        let table = [
            (0, 1, true, Some(3)),
            (0, 1, false, None),
            (3, -1, false, None),
            (3, -1, true, Some(0)),
            (2, -9, true, Some(3)),
            (1, 0, false, Some(1)),
            (1, i64::MIN, true, Some(1)),
            (1, i64::MIN, false, None),
        ];
        for (rank, shift, wrap, expected) in table {
            assert_eq!(source(group(rank), shift, wrap), expected, "{rank} {shift} {wrap}");
            let back = (0..4).filter(|&to| source(group(to), shift, wrap) == Some(rank));
            let forth = destination(group(rank), shift, wrap);
            assert_eq!(back.collect::<Vec<_>>(), forth.into_iter().collect::<Vec<_>>());
        }
    }
}
