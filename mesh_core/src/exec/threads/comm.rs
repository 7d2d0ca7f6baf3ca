//! Collectives through shared memory.
#![allow(unsafe_code, reason = "reads the peers' buffers")]

use std::ptr;
use std::sync::Arc;

use super::super::comm::{Comm, Exchange, Group, Lane, Part, Stopped, source};
use super::super::fold::Fold;
use super::super::shares::{fold_packed, pieces, share};
use super::meeting::{Meeting, Process, Seat};
use crate::names::Axis;
use crate::program::FoldOrder;

impl Seat {
    /// Through mailboxes: everybody folds everything.
    ///
    /// # Safety
    ///
    /// As [`Comm::all_reduce`]; the parts fit into a mailbox.
    unsafe fn fold_all(
        &mut self,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        let mailbox = self.mailbox();
        let mut offset = 0;
        for part in parts {
            let bytes = part.elements * fold.size;
            // SAFETY: it fits, and nobody reads the mailbox.
            unsafe { ptr::copy_nonoverlapping(part.input, mailbox.add(offset), bytes) };
            offset += bytes;
        }
        self.send()?;
        // SAFETY: every member's mailbox holds the same parts; outs are ours alone.
        unsafe { fold_packed(fold, order, &self.peers, &mut self.inputs, parts) };
        Ok(())
    }

    /// In shares: each member folds one, reading it from everybody and writing it to everybody, so
    /// that each line of memory changes hands as rarely as can be.
    ///
    /// In place is safe because a share of all members' buffers is touched by one member alone
    /// between the meetings.
    ///
    /// # Safety
    ///
    /// As [`Comm::all_reduce`].
    unsafe fn fold_shares(
        &mut self,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        let total = parts.iter().map(|part| part.elements).sum();
        self.show(parts.as_ptr().cast())?;
        let share = share(self.rank, self.peers.len(), total);
        for (index, _, range) in pieces(parts, share) {
            for (out, peer) in self.outs.iter_mut().zip(&self.peers) {
                // SAFETY: the peer posted as many parts, and keeps them until the last meeting.
                *out = unsafe { (*peer.cast::<Part>().add(index)).out };
            }
            order.arrange(self.rank, &self.peers, &mut self.inputs);
            for input in &mut self.inputs {
                // SAFETY: as above.
                *input = unsafe { (*input.cast::<Part>().add(index)).input };
            }
            let offset = range.start * fold.size;
            // SAFETY: the range lies within the part, and of every member's buffers nobody else
            // touches it now.
            unsafe { fold.run(&self.inputs, offset, &self.outs, offset, range.len()) };
        }
        self.meet()
    }
}

/// One processor of a [`Process`], which meets others of it, and any with which it shares mailboxes.
pub(in crate::exec) struct Threads {
    process: Arc<Process>,
    processor: usize,
    lane: Lane,
    seats: Vec<Seat>,
}

// SAFETY: the pointers in seats are used within one call only, by whichever thread makes it.
unsafe impl Send for Threads {}

impl Threads {
    pub(in crate::exec) fn new(process: &Arc<Process>, processor: usize, lane: Lane) -> Self {
        Self { process: Arc::clone(process), processor, lane, seats: Vec::new() }
    }

    /// The group that meets there, in which this is number `rank`.
    pub(in crate::exec) fn join(&mut self, meeting: Arc<Meeting>, rank: usize) -> Group {
        let known = self.seats.iter().position(|seat| Arc::ptr_eq(&seat.meeting, &meeting));
        let id = known.unwrap_or(self.seats.len());
        if known.is_none() {
            self.seats.push(Seat::new(meeting, rank));
        }
        Group { id, rank, size: self.seats[id].peers.len() }
    }
}

impl Comm for Threads {
    fn group(&mut self, axes: &[Axis]) -> Group {
        let mesh = self.process.mesh();
        let (members, rank) =
            (mesh.group(self.processor, axes), mesh.group_index(self.processor, axes));
        let meeting = self.process.meeting(self.lane, members);
        self.join(meeting, rank)
    }

    unsafe fn all_reduce(
        &mut self,
        group: Group,
        fold: Fold,
        order: FoldOrder,
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
            if bytes <= seat.mailbox_bytes() {
                seat.fold_all(fold, order, parts)
            } else {
                seat.fold_shares(fold, order, parts)
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
            unsafe { fold.run(&seat.peers, offset, &[out], o * bytes, chunk) };
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

    unsafe fn reduce_to(
        &mut self,
        group: Group,
        fold: Fold,
        root: usize,
        elements: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let seat = &mut self.seats[group.id];
        // SAFETY: the input is that large.
        let open = unsafe { seat.open(input, elements * fold.size)? };
        if group.rank == root {
            // SAFETY: as large as every member's input.
            unsafe { fold.run(&seat.peers, 0, &[out], 0, elements) };
        }
        seat.close(open)
    }

    unsafe fn broadcast(
        &mut self,
        group: Group,
        root: usize,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let seat = &mut self.seats[group.id];
        // Who is not the root may have nothing there.
        let open = if group.rank != root && bytes <= seat.mailbox_bytes() {
            seat.send()?;
            false
        } else {
            // SAFETY: the root's input is that large, others' are but shown.
            unsafe { seat.open(input, bytes)? }
        };
        // SAFETY: as large as the root's input.
        unsafe { ptr::copy_nonoverlapping(seat.peers[root], out, bytes) };
        seat.close(open)
    }
}

#[cfg(test)]
#[path = "comm_tests.rs"]
pub(in crate::exec) mod tests;
