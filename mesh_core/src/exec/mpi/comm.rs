//! How a processor of a rank meets others: as threads do where all are of this rank, and for what is
//! small where all are of this host; else by messages.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use super::super::comm::{Comm, Exchange, Group, Lane, Part, Stopped};
use super::super::fold::Fold;
use super::super::threads::{Meeting, Process, Threads, lock};
use super::arrivals::Arrivals;
use super::communicator::{Communicator, Communicators, MAILBOX};
use super::messages::{Address, Messages};
use crate::names::Axis;
#[cfg(test)]
use crate::names::Mesh;
use crate::program::FoldOrder;

/// Up to so many bytes, all members' inputs together, an all-reduce goes through mailboxes, where everybody
/// reads everything. Of more, each member folds a share.
pub(super) const TOGETHER: usize = 256 << 10;

/// How a group meets, which the way has under a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Threads(Group),
    /// Through mailboxes what fits, by messages what does not.
    Host {
        near: Group,
        far: Group,
    },
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
    /// Why waiting at a mailbox ended.
    problem: Arc<Mutex<Option<String>>>,
    /// By group.
    pub(super) ways: Vec<Way>,
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
        let (problem, ways) = (Arc::default(), Vec::new());
        Self { process, processor, lane, threads, messages, communicators, problem, ways }
    }

    #[cfg(test)]
    pub(super) fn mesh(&self) -> Mesh {
        self.process.mesh().clone()
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

    /// How members of several ranks meet, this one as number `rank`.
    fn between(&mut self, members: &[usize], rank: usize, axes: &[Axis]) -> Way {
        let communicators = Arc::clone(&self.communicators);
        let communicator = communicators.along(axes);
        let addresses = members.iter().map(|&member| self.address(communicator, member)).collect();
        let far = self.messages.group(addresses, rank);
        let known =
            self.ways.iter().find(|way| matches!(way, Way::Host { far: f, .. } if *f == far));
        if let Some(known) = known {
            return *known;
        }
        match self.meeting(communicator, members) {
            Some(meeting) => Way::Host { near: self.threads.join(Arc::new(meeting), rank), far },
            None => Way::Messages(far),
        }
    }

    /// Where members meet who are all on one host.
    fn meeting(&self, communicator: &Communicator, members: &[usize]) -> Option<Meeting> {
        let post = |&member: &usize| {
            let (rank, index) = self.process.map.place(member);
            Some((communicator.post(rank, index, self.lane)?, rank))
        };
        let posts = members.iter().map(post).collect::<Option<Vec<_>>>()?;
        let mailboxes = posts.iter().map(|(post, _)| post.mailboxes.pointers()).collect();
        let wire = &self.messages.wire;
        let (world, deadline) = (wire.world, wire.deadline);
        let (process, problem) = (Arc::clone(&self.process), Arc::clone(&self.problem));
        let arrivals = Arrivals { world, process, deadline, posts, problem };
        // SAFETY: posts live as long as the process; what is larger goes by messages.
        Some(unsafe { Meeting::through(Box::new(arrivals), mailboxes, MAILBOX) })
    }
}

/// Calls a collective, the inputs of which are small enough for mailboxes or not, the way that its group
/// meets.
macro_rules! meet {
    ($self:ident, $group:ident, $small:expr, $collective:ident($($argument:ident),*)) => {
        // SAFETY: the same contract.
        unsafe {
            match $self.ways[$group.id] {
                Way::Threads(group) => $self.threads.$collective(group, $($argument),*),
                Way::Host { near, .. } if $small => {
                    $self.threads.$collective(near, $($argument),*)
                }
                Way::Host { far: group, .. } | Way::Messages(group) => {
                    $self.messages.$collective(group, $($argument),*)
                }
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
        let way = match members.iter().all(|&member| self.process.index(member).is_some()) {
            true => Way::Threads(self.threads.group(axes)),
            false => self.between(&members, rank, axes),
        };
        let id = self.ways.iter().position(|known| *known == way).unwrap_or_else(|| {
            self.ways.push(way);
            self.ways.len() - 1
        });
        Group { id, rank, size }
    }

    fn problem(&mut self) -> Option<String> {
        self.messages.wire.problem.take().or_else(|| lock(&self.problem).take())
    }

    unsafe fn all_reduce(
        &mut self,
        group: Group,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        let bytes = parts.iter().map(|part| part.elements * fold.size).sum::<usize>();
        let small = bytes <= MAILBOX.min(TOGETHER / group.size);
        meet!(self, group, small, all_reduce(fold, order, parts))
    }

    unsafe fn all_gather(
        &mut self,
        group: Group,
        outer: usize,
        chunk: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, outer * chunk <= MAILBOX, all_gather(outer, chunk, input, out))
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
        meet!(
            self,
            group,
            outer * group.size * chunk * fold.size <= MAILBOX,
            reduce_scatter(fold, outer, chunk, input, out)
        )
    }

    unsafe fn all_to_all(
        &mut self,
        group: Group,
        exchange: &Exchange,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, exchange.bytes <= MAILBOX, all_to_all(exchange, input, out))
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
        meet!(self, group, bytes <= MAILBOX, permute(shift, wrap, bytes, input, out))
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
        meet!(
            self,
            group,
            elements * fold.size <= MAILBOX,
            reduce_to(fold, root, elements, input, out)
        )
    }

    unsafe fn broadcast(
        &mut self,
        group: Group,
        root: usize,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        meet!(self, group, bytes <= MAILBOX, broadcast(root, bytes, input, out))
    }
}
