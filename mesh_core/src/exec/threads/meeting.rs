//! Where the members of a group meet, and how they show each other their buffers.
//!
//! A member shows something by filling its mailbox and meeting the others at the group's barrier. It has
//! two mailboxes, for odd meetings and for even ones: by the time it fills one again, there has been
//! another meeting, to which everybody came with what was in it read.
//!
//! A small input is all in the mailbox. Of a large one the mailbox says where it is; such a collective
//! *opens* with that, works straight from the peers' buffers, and *closes* by meeting once more, so that
//! nobody changes a buffer that another still reads.
#![allow(unsafe_code, reason = "fills mailboxes that other threads read")]

use std::ptr;

use super::super::comm::{Stop, Stopped};
use super::super::sync::{Arc, UnsafeCell};
use super::barrier::Barrier;

/// The size of a mailbox. Inputs up to this many bytes go through mailboxes where threads share
/// cores, since there it takes long to meet.
const MAILBOX: usize = 4096;

/// The same where each has a core of its own: an all-reduce of more is faster in shares.
const OWN_MAILBOX: usize = 1024;

/// The bytes of a mailbox, on cache lines of their own.
#[repr(C, align(128))]
struct Bytes([u8; MAILBOX]);

/// What one member shows the others at every second meeting.
struct Mailbox(UnsafeCell<Bytes>);

// SAFETY: its member alone writes to it, before it meets the others, who read it after that meeting and
// before the next; the member writes to it again only after the next (module comment).
unsafe impl Sync for Mailbox {}

impl Mailbox {
    fn new() -> Self {
        Self(UnsafeCell::new(Bytes([0; MAILBOX])))
    }
}

/// Where the members of one group meet.
pub(super) struct Meeting {
    barrier: Barrier,
    /// Those for even meetings and those for odd ones, each in group order.
    mailboxes: [Box<[Mailbox]>; 2],
    /// Inputs up to this many bytes go through mailboxes.
    mailbox_bytes: usize,
}

impl Meeting {
    pub(super) fn new(members: usize, spin: u32, stop: &Arc<Stop>) -> Self {
        let mailboxes = || (0..members).map(|_| Mailbox::new()).collect();
        Self {
            barrier: Barrier::new(members, spin, stop),
            mailboxes: [mailboxes(), mailboxes()],
            mailbox_bytes: if spin > 0 { OWN_MAILBOX } else { MAILBOX },
        }
    }
}

/// One processor's end of a meeting.
pub(super) struct Member {
    pub(super) meeting: Arc<Meeting>,
    pub(super) rank: usize,
    /// What the members showed last, in group order: their mailboxes, or their buffers. Good until
    /// this member meets the others again.
    pub(super) peers: Vec<*const u8>,
    /// Room for the members' buffers of one part.
    pub(super) inputs: Vec<*const u8>,
    /// Likewise.
    pub(super) outs: Vec<*mut u8>,
}

impl Member {
    /// Number `rank` of those who meet there.
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

    /// Has `write` fill our mailbox for the next meeting, [`mailbox_bytes`](Self::mailbox_bytes) or
    /// more that nobody reads and that are aligned to a cache line, and shows it to the peers, and
    /// theirs to us.
    pub(super) fn send(&mut self, write: impl FnOnce(*mut u8)) -> Result<(), Stopped> {
        let Meeting { barrier, mailboxes, .. } = &*self.meeting;
        let mailboxes = &mailboxes[(barrier.generation() % 2) as usize];
        mailboxes[self.rank].0.with_mut(|bytes| write(bytes.cast()));
        barrier.wait()?;
        for (peer, mailbox) in self.peers.iter_mut().zip(mailboxes) {
            *peer = mailbox.0.with(|bytes| bytes.cast());
        }
        Ok(())
    }

    /// Shows `buffer` to the peers, and theirs to us.
    pub(super) fn show(&mut self, buffer: *const u8) -> Result<(), Stopped> {
        if self.alone() {
            self.peers[0] = buffer;
            return Ok(());
        }
        // SAFETY: a mailbox has room for a pointer and is aligned to one; nobody reads ours now.
        self.send(|mailbox| unsafe { mailbox.cast::<*const u8>().write(buffer) })?;
        for peer in &mut self.peers {
            // SAFETY: every member has written a pointer to its mailbox before it came.
            *peer = unsafe { peer.cast::<*const u8>().read() };
        }
        Ok(())
    }

    /// Shows an input to the peers, and theirs to us; says whether to [`close`](Self::close).
    ///
    /// # Safety
    ///
    /// The input is good for `bytes`, initialised if these fit into a mailbox.
    pub(super) unsafe fn open(&mut self, input: *const u8, bytes: usize) -> Result<bool, Stopped> {
        if bytes > self.mailbox_bytes() || self.alone() {
            self.show(input)?;
            return Ok(!self.alone());
        }
        // SAFETY: the input is good for the bytes, which fit into the mailbox; nobody reads that now.
        self.send(|mailbox| unsafe { ptr::copy_nonoverlapping(input, mailbox, bytes) })?;
        Ok(false)
    }

    /// Lets the peers have their inputs back.
    pub(super) fn close(&self, open: bool) -> Result<(), Stopped> {
        if open { self.meet() } else { Ok(()) }
    }

    /// Waits for the peers.
    pub(super) fn meet(&self) -> Result<(), Stopped> {
        self.meeting.barrier.wait()
    }
}
