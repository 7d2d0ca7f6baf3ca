//! Collectives through shared memory.
#![allow(unsafe_code, reason = "reads the peers' buffers")]

use std::ptr;

use super::super::comm::fold::Fold;
use super::super::comm::{
    Collective, Comm, Group, Lane, Part, Stopped, fold_packed, pieces, share,
};
use super::super::sync::Arc;
use super::meeting::Member;
use super::process::Process;
use crate::names::Axis;
use crate::program::FoldOrder;

impl Member {
    /// As [`Collective::AllReduce`].
    ///
    /// # Safety
    ///
    /// That of [`Comm::meet`], for these parts.
    unsafe fn all_reduce(
        &mut self,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        if self.alone() {
            for part in parts {
                // SAFETY: both hold the part's elements; `out` is the input or disjoint from it.
                unsafe { ptr::copy(part.input, part.out, part.elements * fold.size) };
            }
            return Ok(());
        }
        let bytes: usize = parts.iter().map(|part| part.elements * fold.size).sum();
        if bytes <= self.mailbox_bytes() {
            // SAFETY: the parts are good for their elements until all members have returned, and fit
            // into a mailbox.
            unsafe { self.fold_all(fold, order, parts) }
        } else {
            // SAFETY: the parts are good for their elements until all members have returned.
            unsafe { self.fold_shares(fold, order, parts) }
        }
    }

    /// Through mailboxes: everybody folds everything.
    ///
    /// # Safety
    ///
    /// That of [`Comm::meet`], for these parts, which fit into a mailbox.
    unsafe fn fold_all(
        &mut self,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        self.send(|mut mailbox| {
            for part in parts {
                let bytes = part.elements * fold.size;
                // SAFETY: all parts fit into the mailbox, and nobody reads it.
                unsafe {
                    ptr::copy_nonoverlapping(part.input, mailbox, bytes);
                    mailbox = mailbox.add(bytes);
                }
            }
        })?;
        // SAFETY: every member's mailbox holds as many parts; outs are this member's alone.
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
    /// That of [`Comm::meet`], for these parts.
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
                // SAFETY: the peer shows as many parts, and keeps them until the last meeting.
                *out = unsafe { (*peer.cast::<Part>().add(index)).out };
            }
            order.arrange(self.rank, &self.peers, &mut self.inputs);
            for input in &mut self.inputs {
                // SAFETY: the peer shows as many parts, and keeps them until the last meeting.
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

/// One processor of a [`Process`], which meets others of it.
pub(in crate::exec) struct Threads {
    process: Arc<Process>,
    processor: usize,
    lane: Lane,
    /// By group.
    members: Vec<Member>,
}

// SAFETY: a member's pointers are used within one call only, by whichever thread makes it.
unsafe impl Send for Threads {}

impl Threads {
    pub(in crate::exec) fn new(process: &Arc<Process>, processor: usize, lane: Lane) -> Self {
        Self { process: Arc::clone(process), processor, lane, members: Vec::new() }
    }

    /// Waits for the members of a group.
    #[cfg(test)]
    pub(super) fn wait(&self, group: Group) -> Result<(), Stopped> {
        self.members[group.id].meet()
    }
}

impl Comm for Threads {
    fn group(&mut self, axes: &[Axis]) -> Group {
        let mesh = self.process.mesh();
        let rank = mesh.group_index(self.processor, axes);
        let meeting = self.process.meeting(self.lane, mesh.group(self.processor, axes));
        let known = self.members.iter().position(|own| Arc::ptr_eq(&own.meeting, &meeting));
        let id = known.unwrap_or(self.members.len());
        if known.is_none() {
            self.members.push(Member::new(meeting, rank));
        }
        Group { id, rank, size: self.members[id].peers.len() }
    }

    unsafe fn meet(&mut self, group: Group, collective: &Collective) -> Result<(), Stopped> {
        let own = &mut self.members[group.id];
        match *collective {
            Collective::AllReduce { fold, order, ref parts } => {
                // SAFETY: the parts are what all members were promised to meet for.
                unsafe { own.all_reduce(fold, order, parts) }
            }
            Collective::AllGather { outer, chunk, input, out } => {
                // SAFETY: the input holds all chunks.
                let open = unsafe { own.open(input, outer * chunk)? };
                for (member, peer) in own.peers.iter().enumerate() {
                    for o in 0..outer {
                        // SAFETY: within what `peer` shows and within `out`.
                        unsafe {
                            let to = out.add((o * group.size + member) * chunk);
                            ptr::copy_nonoverlapping(peer.add(o * chunk), to, chunk);
                        }
                    }
                }
                own.close(open)
            }
            Collective::ReduceScatter { fold, outer, chunk, input, out } => {
                let bytes = chunk * fold.size;
                // SAFETY: the input holds a chunk for each member.
                let open = unsafe { own.open(input, outer * group.size * bytes)? };
                for o in 0..outer {
                    let offset = (o * group.size + group.rank) * bytes;
                    // SAFETY: within what each member shows and within `out`.
                    unsafe { fold.run(&own.peers, offset, &[out], o * bytes, chunk) };
                }
                own.close(open)
            }
            Collective::AllToAll { ref exchange, input, out } => {
                // SAFETY: the input is that large.
                let open = unsafe { own.open(input, exchange.bytes)? };
                for (member, peer) in own.peers.iter().enumerate() {
                    // SAFETY: the walk stays within a piece, of the input and of the result.
                    unsafe {
                        let from = peer.add(group.rank * exchange.from);
                        exchange.walk.copy(from, out.add(member * exchange.to));
                    }
                }
                own.close(open)
            }
            Collective::Permute { source, bytes, input, out, .. } => {
                // SAFETY: the input is that large.
                let open = unsafe { own.open(input, bytes)? };
                match source {
                    // SAFETY: every member's input and `out` are that large, and disjoint.
                    Some(member) => unsafe {
                        ptr::copy_nonoverlapping(own.peers[member], out, bytes);
                    },
                    // SAFETY: `out` is that large.
                    None => unsafe { ptr::write_bytes(out, 0, bytes) },
                }
                own.close(open)
            }
            Collective::ReduceTo { fold, root, elements, input, out } => {
                // SAFETY: the input is that large.
                let open = unsafe { own.open(input, elements * fold.size)? };
                if group.rank == root {
                    // SAFETY: every member's input and the root's `out` are that large.
                    unsafe { fold.run(&own.peers, 0, &[out], 0, elements) };
                }
                own.close(open)
            }
            Collective::Broadcast { root, bytes, input, out } => {
                // Who is not the root may have nothing there.
                let open = if group.rank != root && bytes <= own.mailbox_bytes() {
                    own.send(|_| ())?;
                    false
                } else {
                    // SAFETY: the root's input is that large; of others' only the address is shown.
                    unsafe { own.open(input, bytes)? }
                };
                // SAFETY: `out` and the root's input are that large, and disjoint.
                unsafe { ptr::copy_nonoverlapping(own.peers[root], out, bytes) };
                own.close(open)
            }
        }
    }
}
