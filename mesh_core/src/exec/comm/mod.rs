//! How one processor meets the others of its group.
//!
//! What is done in a group is a [`Collective`], which is data; a [`Comm`] carries it out. `threads` and
//! `mpi` have one each. Here stands what both need: the order of folds, how an all-reduce is cut into
//! shares, how waiting ends after a failure, and couriers, which carry out collectives beside
//! computation.
#![allow(unsafe_code, reason = "collectives work on the peers' buffers")]

mod caught;
mod collective;
pub(super) mod courier;
pub(super) mod fold;
mod shares;
mod stop;
#[cfg(test)]
pub(super) mod tests;

pub(super) use self::caught::caught;
pub(super) use self::collective::{Collective, Exchange, Part, Parts};
pub(super) use self::shares::{fold_packed, pieces, share};
pub(super) use self::stop::{Bell, Padded, Stop, Stopped};
use crate::names::Axis;

/// Which of a processor's two ends of collectives. What meets at one never mixes with what meets at the
/// other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// Its own.
    Processor,
    /// That of its [courier].
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

/// One processor's end of the collectives.
pub(crate) trait Comm: Send {
    /// Prepares the group along `axes`. All members prepare their groups in the same order.
    fn group(&mut self, axes: &[Axis]) -> Group;

    /// Why something has stopped, for people; nothing if it was because others had.
    fn problem(&mut self) -> Option<String> {
        None
    }

    /// Does its part of a collective; returns when the processor may reuse its buffers. After an error
    /// nothing more can be met.
    ///
    /// # Safety
    ///
    /// * This end prepared the group, and every member of it meets for the same collectives, of the same
    ///   sizes, in the same order.
    /// * The collective's pointers are aligned to [`ALIGNMENT`](crate::program::ALIGNMENT) and good for
    ///   the sizes that it states; inputs are initialised. A pointer to what this member may lack may be
    ///   any: it is neither read nor written.
    /// * Until every member's call has returned, the collective and its buffers are alive, and only
    ///   `Comm`s touch the buffers.
    unsafe fn meet(&mut self, group: Group, collective: &Collective) -> Result<(), Stopped>;
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
mod permutations {
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
