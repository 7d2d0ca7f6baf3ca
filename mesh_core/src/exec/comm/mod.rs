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
