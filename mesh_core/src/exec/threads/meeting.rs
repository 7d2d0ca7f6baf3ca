//! Where the members of a group meet, and how they show each other their buffers.
//!
//! A collective *opens* by posting where each member's input is and meeting at the group's barrier,
//! works straight from the peers' buffers, and *closes* by meeting once more, so that nobody
//! changes a buffer that another still reads. Small inputs are copied to a mailbox instead, and
//! then need no closing: each member has two mailboxes and uses them in turn, and by the time it
//! fills the first again, everybody has left the collective in which it was read.
#![allow(unsafe_code, reason = "fills mailboxes that other threads read")]

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use super::super::comm::{Lane, Stopped};
use super::barrier::{Barrier, Stop, lock};
use crate::names::{Mesh, ProcessMap};

/// The size of a mailbox. Inputs up to this many bytes go through mailboxes where threads share
/// cores, since there it takes long to meet.
const MAILBOX: usize = 4096;

/// The same where each has a core of its own: an all-reduce of more is faster in shares.
const OWN_MAILBOX: usize = 1024;

#[repr(align(128))]
struct Mailbox(UnsafeCell<[u8; MAILBOX]>);

/// What one member shows the others.
#[repr(align(128))]
struct Post {
    /// An input, or the parts of an all-reduce.
    buffer: AtomicPtr<u8>,
    mailboxes: [Mailbox; 2],
}

// SAFETY: a mailbox is written by its member before a barrier and read by all after it; see the
// module comment for why the next writing comes after the last reading.
unsafe impl Sync for Post {}

/// Where the members of one group meet.
pub(super) struct Meeting {
    pub(super) barrier: Barrier,
    posts: Box<[Post]>,
    /// Inputs up to this many bytes go through mailboxes.
    mailbox_bytes: usize,
}

impl Meeting {
    fn new(members: usize, spin: u32, stop: &Arc<Stop>) -> Self {
        let mailbox = || Mailbox(UnsafeCell::new([0; MAILBOX]));
        let post = || Post { buffer: AtomicPtr::default(), mailboxes: [mailbox(), mailbox()] };
        Self {
            barrier: Barrier::new(members, spin, stop),
            posts: (0..members).map(|_| post()).collect(),
            mailbox_bytes: if spin > 0 { OWN_MAILBOX } else { MAILBOX },
        }
    }
}

/// How often a thread looks before it lets others run, when it has a core of its own: a few
/// microseconds, for the system may have put two threads on one core all the same.
const SPIN: u32 = 100;

/// Whose meeting it is, the members in group order.
type Known = ((Lane, Vec<usize>), Arc<Meeting>);

/// The processors of a mesh that this process runs, and what they share in order to meet.
pub(in crate::exec) struct Process {
    pub(in crate::exec) map: ProcessMap,
    /// Which of the processes this is.
    pub(in crate::exec) rank: usize,
    pub(in crate::exec) stop: Arc<Stop>,
    cores: usize,
    /// Whether each processor has a courier with a thread of its own.
    pub(in crate::exec) couriers: bool,
    meetings: Mutex<Vec<Known>>,
}

impl Process {
    /// Process `rank`, which has so many cores to itself. Unless it is said whether there are
    /// couriers, there are if each has a core, too.
    pub(in crate::exec) fn new(
        map: ProcessMap,
        rank: usize,
        cores: usize,
        couriers: Option<bool>,
    ) -> Arc<Self> {
        let couriers = couriers.unwrap_or(2 * map.of(rank).len() <= cores);
        let (stop, meetings) = (Arc::default(), Mutex::default());
        Arc::new(Self { map, rank, stop, cores, couriers, meetings })
    }

    pub(in crate::exec) fn mesh(&self) -> &Mesh {
        self.map.mesh()
    }

    /// The processors that it runs.
    pub(in crate::exec) fn processors(&self) -> &[usize] {
        self.map.of(self.rank)
    }

    /// Which of them a processor is, if it is here.
    pub(in crate::exec) fn index(&self, processor: usize) -> Option<usize> {
        let known = processor < self.mesh().processors();
        let (rank, index) = known.then(|| self.map.place(processor))?;
        (rank == self.rank).then_some(index)
    }

    /// Whether each processor has a core of its own, as have its courier and `others` threads besides.
    pub(in crate::exec) fn is_roomy(&self, others: usize) -> bool {
        let threads = self.processors().len() * if self.couriers { 2 } else { 1 };
        threads + others <= self.cores
    }

    /// How often to look before letting others run, if so many threads beside the processors want
    /// to run.
    pub(in crate::exec) fn spin(&self, others: usize) -> u32 {
        if self.is_roomy(others) { SPIN } else { 0 }
    }

    pub(super) fn meeting(&self, lane: Lane, members: Vec<usize>) -> Arc<Meeting> {
        let (mut meetings, whose) = (lock(&self.meetings), (lane, members));
        if let Some((_, meeting)) = meetings.iter().find(|(known, _)| *known == whose) {
            return Arc::clone(meeting);
        }
        let meeting = Arc::new(Meeting::new(whose.1.len(), self.spin(0), &self.stop));
        meetings.push((whose, Arc::clone(&meeting)));
        meeting
    }
}

/// One processor's place in a meeting.
pub(super) struct Seat {
    pub(super) meeting: Arc<Meeting>,
    pub(super) rank: usize,
    /// The mailbox to fill next.
    pub(super) turn: usize,
    /// What the members posted; valid between opening and closing.
    pub(super) peers: Vec<*const u8>,
    /// Room for the members' buffers of one part.
    pub(super) inputs: Vec<*const u8>,
    /// Likewise.
    pub(super) outs: Vec<*mut u8>,
}

impl Seat {
    pub(super) fn new(meeting: Arc<Meeting>, rank: usize) -> Self {
        let peers = vec![ptr::null(); meeting.posts.len()];
        let outs = vec![ptr::null_mut(); peers.len()];
        Self { meeting, rank, turn: 0, inputs: peers.clone(), outs, peers }
    }

    pub(super) fn alone(&self) -> bool {
        self.peers.len() == 1
    }

    /// How large an input may be that goes through mailboxes.
    pub(super) fn mailbox_bytes(&self) -> usize {
        self.meeting.mailbox_bytes
    }

    pub(super) fn mailbox(&self, member: usize) -> *mut u8 {
        self.meeting.posts[member].mailboxes[self.turn].0.get().cast()
    }

    /// Shows `buffer` to the peers, and theirs to us.
    pub(super) fn show(&mut self, buffer: *const u8) -> Result<(), Stopped> {
        if self.alone() {
            self.peers[0] = buffer;
            return Ok(());
        }
        let posts = &self.meeting.posts;
        // The barrier orders this store before every member's loads.
        posts[self.rank].buffer.store(buffer.cast_mut(), Ordering::Relaxed);
        self.meeting.barrier.wait()?;
        for (peer, post) in self.peers.iter_mut().zip(posts) {
            *peer = post.buffer.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Shows our mailbox, which has been filled.
    pub(super) fn send(&mut self) -> Result<(), Stopped> {
        self.meeting.barrier.wait()?;
        for member in 0..self.peers.len() {
            self.peers[member] = self.mailbox(member);
        }
        self.turn = 1 - self.turn;
        Ok(())
    }

    /// Shows an input to the peers, and theirs to us; says whether to [`close`](Self::close).
    ///
    /// # Safety
    ///
    /// The input is good for `bytes`.
    pub(super) unsafe fn open(&mut self, input: *const u8, bytes: usize) -> Result<bool, Stopped> {
        if bytes > self.mailbox_bytes() || self.alone() {
            self.show(input)?;
            return Ok(!self.alone());
        }
        // SAFETY: it fits, and nobody reads the mailbox whose turn it is.
        unsafe { ptr::copy_nonoverlapping(input, self.mailbox(self.rank), bytes) };
        self.send()?;
        Ok(false)
    }

    /// Lets the peers have their inputs back.
    pub(super) fn close(&self, open: bool) -> Result<(), Stopped> {
        if open { self.meeting.barrier.wait() } else { Ok(()) }
    }
}
