//! Collectives through shared memory.
//!
//! A collective *opens* by posting where each member's input is and meeting at the group's barrier,
//! works straight from the peers' buffers, and *closes* by meeting once more, so that nobody
//! changes a buffer that another still reads. Small inputs are copied to a mailbox instead, and
//! then need no closing: each member has two mailboxes and uses them in turn, and by the time it
//! fills the first again, everybody has left the collective in which it was read.
#![allow(unsafe_code, reason = "reads the peers' buffers")]

use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use super::super::comm::{Comm, Exchange, Group, Part, Stopped, source};
use super::super::fold::Fold;
use super::barrier::{Barrier, Stop, lock};
use crate::names::{Axis, Mesh};

/// Inputs up to this many bytes go through mailboxes.
const MAILBOX: usize = 4096;

/// Boundaries between the members' shares of an all-reduce are multiples of this many elements, so
/// that no two write to one cache line.
const SHARE: usize = 64;

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
struct Meeting {
    barrier: Barrier,
    posts: Box<[Post]>,
}

impl Meeting {
    fn new(members: usize, spin: u32, stop: &Arc<Stop>) -> Self {
        let mailbox = || Mailbox(UnsafeCell::new([0; MAILBOX]));
        let post = || Post { buffer: AtomicPtr::default(), mailboxes: [mailbox(), mailbox()] };
        Self {
            barrier: Barrier::new(members, spin, stop),
            posts: (0..members).map(|_| post()).collect(),
        }
    }
}

/// What the processors of a mesh share in order to meet.
pub(super) struct World {
    mesh: Mesh,
    spin: u32,
    stop: Arc<Stop>,
    /// By members, in group order.
    meetings: Mutex<Vec<(Vec<usize>, Arc<Meeting>)>>,
}

impl World {
    pub(super) fn new(mesh: &Mesh, spin: u32, stop: &Arc<Stop>) -> Arc<Self> {
        let stop = Arc::clone(stop);
        Arc::new(Self { mesh: mesh.clone(), spin, stop, meetings: Mutex::default() })
    }

    fn meeting(&self, members: Vec<usize>) -> Arc<Meeting> {
        let mut meetings = lock(&self.meetings);
        if let Some((_, meeting)) = meetings.iter().find(|(known, _)| *known == members) {
            return Arc::clone(meeting);
        }
        let meeting = Arc::new(Meeting::new(members.len(), self.spin, &self.stop));
        meetings.push((members, Arc::clone(&meeting)));
        meeting
    }
}

/// One processor's place in a meeting.
struct Seat {
    meeting: Arc<Meeting>,
    rank: usize,
    /// The mailbox to fill next.
    turn: usize,
    /// What the members posted; valid between opening and closing.
    peers: Vec<*const u8>,
    /// Room for the members' buffers of one part.
    inputs: Vec<*const u8>,
}

impl Seat {
    fn alone(&self) -> bool {
        self.peers.len() == 1
    }

    fn mailbox(&self, member: usize) -> *mut u8 {
        self.meeting.posts[member].mailboxes[self.turn].0.get().cast()
    }

    /// Shows `buffer` to the peers, and theirs to us.
    fn show(&mut self, buffer: *const u8) -> Result<(), Stopped> {
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
    fn send(&mut self) -> Result<(), Stopped> {
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
    unsafe fn open(&mut self, input: *const u8, bytes: usize) -> Result<bool, Stopped> {
        if bytes > MAILBOX || self.alone() {
            self.show(input)?;
            return Ok(!self.alone());
        }
        // SAFETY: it fits, and nobody reads the mailbox whose turn it is.
        unsafe { ptr::copy_nonoverlapping(input, self.mailbox(self.rank), bytes) };
        self.send()?;
        Ok(false)
    }

    /// Lets the peers have their inputs back.
    fn close(&self, open: bool) -> Result<(), Stopped> {
        if open { self.meeting.barrier.wait() } else { Ok(()) }
    }

    /// The elements of `total` that `member` folds.
    fn share(&self, member: usize, total: usize) -> Range<usize> {
        let members = self.peers.len();
        let bound = |member| match member == members {
            true => total,
            false => total * member / members / SHARE * SHARE,
        };
        bound(member)..bound(member + 1)
    }

    /// Through mailboxes: everybody folds everything.
    ///
    /// # Safety
    ///
    /// As [`Comm::all_reduce`]; the parts fit into a mailbox.
    unsafe fn fold_all(&mut self, fold: Fold, parts: &[Part]) -> Result<(), Stopped> {
        let mailbox = self.mailbox(self.rank);
        let mut offset = 0;
        for part in parts {
            let bytes = part.elements * fold.size;
            // SAFETY: it fits, and nobody reads the mailbox whose turn it is.
            unsafe { ptr::copy_nonoverlapping(part.input, mailbox.add(offset), bytes) };
            offset += bytes;
        }
        self.send()?;
        offset = 0;
        for part in parts {
            // SAFETY: every member's mailbox holds the same parts; outs are ours alone.
            unsafe { fold.run(&self.peers, offset, part.out, part.elements) };
            offset += part.elements * fold.size;
        }
        Ok(())
    }

    /// In shares: each member folds one, reading it from everybody, and copies the others'.
    ///
    /// In place is safe because a share of any member's buffer is read and written by one member
    /// before the second meeting, and only read after.
    ///
    /// # Safety
    ///
    /// As [`Comm::all_reduce`].
    unsafe fn fold_shares(&mut self, fold: Fold, parts: &[Part]) -> Result<(), Stopped> {
        let total = parts.iter().map(|part| part.elements).sum();
        self.show(parts.as_ptr().cast())?;
        for (index, part, range) in pieces(parts, self.share(self.rank, total)) {
            for (input, peer) in self.inputs.iter_mut().zip(&self.peers) {
                // SAFETY: the peer posted as many parts, and keeps them until the last meeting.
                *input = unsafe { (*peer.cast::<Part>().add(index)).input };
            }
            let offset = range.start * fold.size;
            // SAFETY: the range lies within the part, and of every member's buffers nobody else
            // touches it now.
            unsafe { fold.run(&self.inputs, offset, part.out.add(offset), range.len()) };
        }
        self.meeting.barrier.wait()?;
        // Each begins with its neighbour, so that not all read from the same one.
        for member in (self.rank + 1..self.peers.len()).chain(0..self.rank) {
            let peer = self.peers[member].cast::<Part>();
            for (index, part, range) in pieces(parts, self.share(member, total)) {
                let (offset, bytes) = (range.start * fold.size, range.len() * fold.size);
                // SAFETY: as above; the peer has written its share, nobody writes to it now.
                unsafe {
                    let from = (*peer.add(index)).out.add(offset);
                    ptr::copy_nonoverlapping(from, part.out.add(offset), bytes);
                }
            }
        }
        self.meeting.barrier.wait()
    }
}

/// Where a range of the parts' concatenation lies: index, part and range within the part.
fn pieces(
    parts: &[Part],
    range: Range<usize>,
) -> impl Iterator<Item = (usize, &Part, Range<usize>)> {
    let mut first = 0;
    parts.iter().enumerate().filter_map(move |(index, part)| {
        let begin = range.start.max(first) - first;
        let end = range.end.min(first + part.elements).saturating_sub(first);
        first += part.elements;
        (begin < end).then_some((index, part, begin..end))
    })
}

/// One processor of a [`World`].
pub(super) struct Threads {
    world: Arc<World>,
    processor: usize,
    seats: Vec<Seat>,
    /// The seat of the group of all processors.
    everyone: Group,
}

// SAFETY: the pointers in seats are used within one call only, by whichever thread makes it.
unsafe impl Send for Threads {}

impl Threads {
    pub(super) fn new(world: &Arc<World>, processor: usize) -> Self {
        let everyone = Group { id: 0, rank: 0, size: 0 };
        let mut threads = Self { world: Arc::clone(world), processor, seats: Vec::new(), everyone };
        let axes: Vec<_> = world.mesh.axes().collect();
        threads.everyone = threads.group(&axes);
        threads
    }
}

impl Comm for Threads {
    fn group(&mut self, axes: &[Axis]) -> Group {
        let members = self.world.mesh.group(self.processor, axes);
        let rank = self.world.mesh.group_index(self.processor, axes);
        let size = members.len();
        let meeting = self.world.meeting(members);
        let known = self.seats.iter().position(|seat| Arc::ptr_eq(&seat.meeting, &meeting));
        let id = known.unwrap_or(self.seats.len());
        if known.is_none() {
            let nowhere = vec![ptr::null(); size];
            self.seats.push(Seat {
                meeting,
                rank,
                turn: 0,
                peers: nowhere.clone(),
                inputs: nowhere,
            });
        }
        Group { id, rank, size }
    }

    fn barrier(&mut self) -> Result<(), Stopped> {
        self.seats[self.everyone.id].meeting.barrier.wait()
    }

    unsafe fn all_reduce(
        &mut self,
        group: Group,
        fold: Fold,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        let seat = &mut self.seats[group.id];
        if seat.alone() {
            for part in parts {
                // SAFETY: `out` is the input or disjoint from it.
                unsafe { ptr::copy(part.input, part.out, part.elements * fold.size) };
            }
            return Ok(());
        }
        let bytes: usize = parts.iter().map(|part| part.elements * fold.size).sum();
        // SAFETY: the same contract.
        unsafe {
            if bytes <= MAILBOX {
                seat.fold_all(fold, parts)
            } else {
                seat.fold_shares(fold, parts)
            }
        }
    }

    unsafe fn all_gather(
        &mut self,
        group: Group,
        outer: usize,
        chunk: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let seat = &mut self.seats[group.id];
        // SAFETY: the input holds all chunks.
        let open = unsafe { seat.open(input, outer * chunk)? };
        for (member, peer) in seat.peers.iter().enumerate() {
            for o in 0..outer {
                // SAFETY: within what `peer` posted and within `out`.
                unsafe {
                    let to = out.add((o * group.size + member) * chunk);
                    ptr::copy_nonoverlapping(peer.add(o * chunk), to, chunk);
                }
            }
        }
        seat.close(open)
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
        let seat = &mut self.seats[group.id];
        let bytes = chunk * fold.size;
        // SAFETY: the input holds a chunk for each member.
        let open = unsafe { seat.open(input, outer * group.size * bytes)? };
        for o in 0..outer {
            let offset = (o * group.size + group.rank) * bytes;
            // SAFETY: within what each member posted and within `out`.
            unsafe { fold.run(&seat.peers, offset, out.add(o * bytes), chunk) };
        }
        seat.close(open)
    }

    unsafe fn all_to_all(
        &mut self,
        group: Group,
        exchange: &Exchange,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let seat = &mut self.seats[group.id];
        // SAFETY: the input is that large.
        let open = unsafe { seat.open(input, exchange.bytes)? };
        for (member, peer) in seat.peers.iter().enumerate() {
            // SAFETY: the walk stays within a piece, of the input and of the result.
            unsafe {
                let from = peer.add(group.rank * exchange.from);
                exchange.walk.copy(from, out.add(member * exchange.to));
            }
        }
        seat.close(open)
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
        let seat = &mut self.seats[group.id];
        // SAFETY: the input is that large.
        let open = unsafe { seat.open(input, bytes)? };
        // SAFETY: as large as every member's input.
        unsafe {
            match source(group, shift, wrap) {
                Some(member) => ptr::copy_nonoverlapping(seat.peers[member], out, bytes),
                None => ptr::write_bytes(out, 0, bytes),
            }
        }
        seat.close(open)
    }
}

#[cfg(test)]
#[path = "comm_tests.rs"]
mod tests;
