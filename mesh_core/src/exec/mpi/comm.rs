//! How a processor of a rank meets others: as threads do where all are of this rank, else by messages.

use std::ffi::c_int;

use super::super::comm::{Collective, Comm, Group, Lane, Stopped};
use super::super::sync::Arc;
use super::super::threads::{Process, Threads};
use super::channel::Address;
use super::channel::Communicator;
use super::communicator::Communicators;
use super::messages::Messages;
use crate::names::Axis;

/// What carries a group's collectives, which knows the group under a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    Threads(Group),
    Messages(Group),
}

/// One processor of a rank.
pub(in crate::exec) struct RankComm {
    process: Arc<Process>,
    processor: usize,
    lane: Lane,
    threads: Threads,
    messages: Messages,
    communicators: Arc<Communicators>,
    /// By group.
    pub(super) routes: Vec<Route>,
}

impl RankComm {
    pub(super) fn new(
        process: &Arc<Process>,
        processor: usize,
        lane: Lane,
        messages: Messages,
        communicators: &Arc<Communicators>,
    ) -> Self {
        let threads = Threads::new(process, processor, lane);
        let (process, communicators) = (Arc::clone(process), Arc::clone(communicators));
        Self { process, processor, lane, threads, messages, communicators, routes: Vec::new() }
    }

    /// The largest tag among processors of ranks that have so many each; 0 is the ranks' own.
    pub(super) fn largest_tag(each: usize) -> usize {
        each.saturating_mul(each).saturating_mul(2)
    }

    fn address(&self, communicator: &Communicator, member: usize) -> Address {
        let map = &self.process.map;
        let ((_, own), (rank, other)) = (map.place(self.processor), map.place(member));
        let (lane, each) = (usize::from(self.lane == Lane::Courier), map.each());
        let tag = |from, to| (1 + (lane * each + from) * each + to) as c_int;
        let (channel, number) = (communicator.channel, communicator.number(rank) as c_int);
        Address { channel, number, rank, to: tag(own, other), from: tag(other, own) }
    }
}

impl Comm for RankComm {
    fn group(&mut self, axes: &[Axis]) -> Group {
        let mesh = self.process.mesh();
        let (members, rank) =
            (mesh.group(self.processor, axes), mesh.group_index(self.processor, axes));
        let size = members.len();
        let route = match members.iter().all(|&member| self.process.index(member).is_some()) {
            true => Route::Threads(self.threads.group(axes)),
            false => {
                let communicator = self.communicators.along(axes);
                let address = |&member: &usize| self.address(communicator, member);
                let addresses = members.iter().map(address).collect();
                Route::Messages(self.messages.group(addresses, rank))
            }
        };
        let id = self.routes.iter().position(|known| *known == route).unwrap_or_else(|| {
            self.routes.push(route);
            self.routes.len() - 1
        });
        Group { id, rank, size }
    }

    fn problem(&mut self) -> Option<String> {
        self.messages.wire.problem.take()
    }

    unsafe fn meet(&mut self, group: Group, collective: &Collective) -> Result<(), Stopped> {
        match self.routes[group.id] {
            // SAFETY: `threads` prepared this group, of the same members, who all take this route; what
            // the collective's pointers are good for, and how long, `meet` requires of our caller, too.
            Route::Threads(group) => unsafe { self.threads.meet(group, collective) },
            // SAFETY: `messages` prepared this group, of the same members, who all take this route; what
            // the collective's pointers are good for, and how long, `meet` requires of our caller, too.
            Route::Messages(group) => unsafe { self.messages.meet(group, collective) },
        }
    }
}
