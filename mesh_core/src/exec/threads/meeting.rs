//! Where the members of a group meet, and how they show each other their buffers.
//!
//! A member shows something by filling its mailbox and meeting the others at the group's barrier. It has
//! two mailboxes, for odd meetings and for even ones: by the time it fills one again, there has been
//! another meeting, to which everybody came with what was in it read.
//!
//! A small input is all in the mailbox. Of a large one only threads of one process can show where it is;
//! such a collective *opens* with that, works straight from the peers' buffers, and *closes* by meeting
//! once more, so that nobody changes a buffer that another still reads.
#![allow(unsafe_code, reason = "fills mailboxes that other threads read")]

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::{Arc, Mutex};

use super::super::comm::{Lane, Stopped};
use super::barrier::{Barrier, Stop, ThreadBarrier, lock};
use crate::names::{Mesh, ProcessMap};

/// The size of a mailbox. Inputs up to this many bytes go through mailboxes where threads share
/// cores, since there it takes long to meet.
const MAILBOX: usize = 4096;

/// The same where each has a core of its own: an all-reduce of more is faster in shares.
const OWN_MAILBOX: usize = 1024;

/// What one member shows the others, at odd meetings and at even ones.
#[repr(C, align(128))]
pub(in crate::exec) struct Mailboxes<const BYTES: usize>([UnsafeCell<[u8; BYTES]>; 2]);

// SAFETY: written by its member before a barrier and read by all after it; see the module comment for
// why the next writing comes after the last reading.
unsafe impl<const BYTES: usize> Sync for Mailboxes<BYTES> {}

impl<const BYTES: usize> Mailboxes<BYTES> {
    fn new() -> Self {
        const { assert!(BYTES.is_multiple_of(128)) };
        Self([const { UnsafeCell::new([0; BYTES]) }; 2])
    }

    pub(in crate::exec) fn pointers(&self) -> [*mut u8; 2] {
        self.0.each_ref().map(|mailbox| mailbox.get().cast())
    }
}

/// Where the members of one group meet.
pub(in crate::exec) struct Meeting {
    barrier: Box<dyn Barrier>,
    /// Those for even meetings, then those for odd ones, in group order.
    mailboxes: [Vec<*mut u8>; 2],
    /// Inputs up to this many bytes go through mailboxes.
    mailbox_bytes: usize,
    /// What the mailboxes are in, if they are its own.
    _own: Box<[Mailboxes<MAILBOX>]>,
}

// SAFETY: as `Mailboxes`.
unsafe impl Send for Meeting {}
// SAFETY: as above.
unsafe impl Sync for Meeting {}

impl Meeting {
    /// Of threads.
    fn new(members: usize, spin: u32, stop: &Arc<Stop>) -> Self {
        let own: Box<[_]> = (0..members).map(|_| Mailboxes::new()).collect();
        let barrier = Box::new(ThreadBarrier::new(members, spin, stop));
        let mailbox_bytes = if spin > 0 { OWN_MAILBOX } else { MAILBOX };
        let mailboxes = own.iter().map(Mailboxes::pointers).collect();
        // SAFETY: they are this large, and its own.
        let meeting = unsafe { Self::through(barrier, mailboxes, mailbox_bytes) };
        Self { _own: own, ..meeting }
    }

    /// Through these mailboxes, an even and an odd one of each member.
    ///
    /// # Safety
    ///
    /// They have room for so many bytes, are aligned, outlive the meeting, and are the members' alone;
    /// where these are of several processes, nothing larger is shown.
    pub(in crate::exec) unsafe fn through(
        barrier: Box<dyn Barrier>,
        mailboxes: Vec<[*mut u8; 2]>,
        mailbox_bytes: usize,
    ) -> Self {
        let mailboxes = [0, 1].map(|turn| mailboxes.iter().map(|pair| pair[turn]).collect());
        Self { barrier, mailboxes, mailbox_bytes, _own: Box::default() }
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
    /// What the members posted; valid between opening and closing.
    pub(super) peers: Vec<*const u8>,
    /// Room for the members' buffers of one part.
    pub(super) inputs: Vec<*const u8>,
    /// Likewise.
    pub(super) outs: Vec<*mut u8>,
}

impl Seat {
    pub(super) fn new(meeting: Arc<Meeting>, rank: usize) -> Self {
        let peers = vec![ptr::null(); meeting.mailboxes[0].len()];
        let outs = vec![ptr::null_mut(); peers.len()];
        Self { meeting, rank, inputs: peers.clone(), outs, peers }
    }

    pub(super) fn alone(&self) -> bool {
        self.peers.len() == 1
    }

    /// How large an input may be that goes through mailboxes.
    pub(super) fn mailbox_bytes(&self) -> usize {
        self.meeting.mailbox_bytes
    }

    /// Which of everybody's mailboxes are for the next meeting.
    fn turn(&self) -> usize {
        (self.meeting.barrier.rounds(self.rank) % 2) as usize
    }

    /// Our mailbox for the next meeting, which nobody reads.
    pub(super) fn mailbox(&self) -> *mut u8 {
        self.meeting.mailboxes[self.turn()][self.rank]
    }

    /// Shows our mailbox, which has been filled.
    pub(super) fn send(&mut self) -> Result<(), Stopped> {
        let turn = self.turn();
        self.meet()?;
        for (peer, mailbox) in self.peers.iter_mut().zip(&self.meeting.mailboxes[turn]) {
            *peer = *mailbox;
        }
        Ok(())
    }

    /// Shows `buffer` to the peers, and theirs to us.
    pub(super) fn show(&mut self, buffer: *const u8) -> Result<(), Stopped> {
        if self.alone() {
            self.peers[0] = buffer;
            return Ok(());
        }
        // SAFETY: nobody reads the mailbox, which has room and is aligned; after the meeting all of them
        // hold a pointer.
        unsafe {
            self.mailbox().cast::<*const u8>().write(buffer);
            self.send()?;
            for peer in &mut self.peers {
                *peer = peer.cast::<*const u8>().read();
            }
        }
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
        // SAFETY: it fits, and nobody reads the mailbox.
        unsafe { ptr::copy_nonoverlapping(input, self.mailbox(), bytes) };
        self.send()?;
        Ok(false)
    }

    /// Lets the peers have their inputs back.
    pub(super) fn close(&self, open: bool) -> Result<(), Stopped> {
        if open { self.meet() } else { Ok(()) }
    }

    /// Waits for the peers.
    pub(super) fn meet(&self) -> Result<(), Stopped> {
        self.meeting.barrier.wait(self.rank)
    }
}
