//! How a processor of a rank meets others: as threads do where all are of this rank, else by messages.

use std::ffi::c_int;
use std::sync::Arc;

use super::super::comm::{Comm, Exchange, Group, Lane, Part, Stopped};
use super::super::fold::Fold;
use super::super::threads::{Process, Threads};
use super::messages::{Address, Messages};
use crate::names::Axis;
#[cfg(test)]
use crate::names::Mesh;
use crate::program::FoldOrder;

/// How a group meets, which the way has under a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Threads(Group),
    Messages(Group),
}

/// One processor of a rank.
pub(super) struct RankComm {
    process: Arc<Process>,
    processor: usize,
    lane: Lane,
    threads: Threads,
    messages: Messages,
    /// By group.
    pub(super) ways: Vec<Way>,
}

impl RankComm {
    pub(super) fn new(
        process: &Arc<Process>,
        processor: usize,
        lane: Lane,
        messages: Messages,
    ) -> Self {
        let threads = Threads::new(process, processor, lane);
        let (process, ways) = (Arc::clone(process), Vec::new());
        Self { process, processor, lane, threads, messages, ways }
    }

    #[cfg(test)]
    pub(super) fn mesh(&self) -> Mesh {
        self.process.mesh().clone()
    }

    /// The largest tag among processors of ranks that have so many each; 0 is the ranks' own.
    pub(super) fn largest_tag(each: usize) -> usize {
        each.saturating_mul(each).saturating_mul(2)
    }

    fn address(&self, member: usize) -> Address {
        let map = &self.process.map;
        let ((_, own), (rank, other)) = (map.place(self.processor), map.place(member));
        let (lane, each) = (usize::from(self.lane == Lane::Courier), map.each());
        let tag = |from, to| (1 + (lane * each + from) * each + to) as c_int;
        Address { rank, to: tag(own, other), from: tag(other, own) }
    }
}

/// Calls a collective the way that its group meets.
macro_rules! meet {
    ($self:ident, $group:ident, $collective:ident($($argument:ident),*)) => {
        // SAFETY: the same contract.
        unsafe {
            match $self.ways[$group.id] {
                Way::Threads(group) => $self.threads.$collective(group, $($argument),*),
                Way::Messages(group) => $self.messages.$collective(group, $($argument),*),
            }
        }
    };
}

impl Comm for RankComm {
    fn group(&mut self, axes: &[Axis]) -> Group {
        let mesh = self.process.mesh();
        let (members, rank) =
            (mesh.group(self.processor, axes), mesh.group_index(self.processor, axes));
        let size = members.len();
        let way = if members.iter().all(|&member| self.process.index(member).is_some()) {
            Way::Threads(self.threads.group(axes))
        } else {
            let members = members.iter().map(|&member| self.address(member)).collect();
            Way::Messages(self.messages.group(members, rank))
        };
        let id = self.ways.iter().position(|known| *known == way).unwrap_or_else(|| {
            self.ways.push(way);
            self.ways.len() - 1
        });
        Group { id, rank, size }
    }

    fn problem(&mut self) -> Option<String> {
        self.messages.wire.problem.take()
    }

    unsafe fn all_reduce(
        &mut self,
        group: Group,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        meet!(self, group, all_reduce(fold, order, parts))
    }

    unsafe fn all_gather(
        &mut self,
        group: Group,
        outer: usize,
        chunk: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, all_gather(outer, chunk, input, out))
    }

    unsafe fn reduce_scatter(
        &mut self,
        group: Group,
        fold: Fold,
        outer: usize,
        chunk: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, reduce_scatter(fold, outer, chunk, input, out))
    }

    unsafe fn all_to_all(
        &mut self,
        group: Group,
        exchange: &Exchange,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, all_to_all(exchange, input, out))
    }

    unsafe fn permute(
        &mut self,
        group: Group,
        shift: i64,
        wrap: bool,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, permute(shift, wrap, bytes, input, out))
    }

    unsafe fn reduce_to(
        &mut self,
        group: Group,
        fold: Fold,
        root: usize,
        elements: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, reduce_to(fold, root, elements, input, out))
    }

    unsafe fn broadcast(
        &mut self,
        group: Group,
        root: usize,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, broadcast(root, bytes, input, out))
    }
}
