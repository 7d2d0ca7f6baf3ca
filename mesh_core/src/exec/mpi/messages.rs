//! Collectives as messages.
//!
//! MPI's own reductions fold in an order of their own choosing, so nothing but bytes is moved here,
//! and folded in the group's order: the same bits as among threads.

mod all_reduce;
mod rooted;

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use super::super::comm::fold::Fold;
use super::super::comm::{Collective, Exchange, Group, Stopped};
use super::super::sync::Arc;
use super::super::threads::Process;
use super::channel::Address;
use super::staging::Staging;
use super::wire::Wire;
use super::world::World;
use crate::program::ALIGNMENT;

/// Up to so many bytes, all members' inputs together, everybody gets everything and folds it: one
/// exchange instead of two.
pub(super) const SMALL: usize = 32 << 10;

/// The same between two, where it moves no more bytes than two exchanges.
pub(super) const SMALL_OF_TWO: usize = 256 << 10;

/// One end of messages: that of a processor, or of a rank as such.
pub(super) struct Messages {
    pub(super) wire: Wire,
    /// The members of each group, in its order.
    groups: Vec<Vec<Address>>,
    /// What is sent and does not lie together.
    outgoing: Staging,
    /// What is received and does not go where it is wanted.
    incoming: Staging,
    /// Where the members' inputs are, in group order.
    peers: Vec<*const u8>,
    /// Likewise, as they are folded.
    inputs: Vec<*const u8>,
}

// SAFETY: the pointers are used within one call only, by the thread that makes it.
unsafe impl Send for Messages {}

impl Messages {
    /// An end in a process of this rank.
    pub(super) fn new(
        world: &'static World,
        process: &Arc<Process>,
        deadline: Duration,
    ) -> Result<Self, String> {
        let (outgoing, incoming) = (Staging::new()?, Staging::new()?);
        let (wire, groups) = (Wire::new(world, process, deadline), Vec::new());
        Ok(Self { wire, groups, outgoing, incoming, peers: Vec::new(), inputs: Vec::new() })
    }

    /// The group of these members, of which this end is number `rank`.
    pub(super) fn group(&mut self, members: Vec<Address>, rank: usize) -> Group {
        let size = members.len();
        let known = self.groups.iter().position(|known| *known == members);
        let id = known.unwrap_or(self.groups.len());
        if known.is_none() {
            self.groups.push(members);
        }
        Group { id, rank, size }
    }

    /// All ranks, as such.
    pub(super) fn ranks(&mut self) -> Group {
        let World { rank, size, .. } = *self.wire.world;
        let members = (0..size).map(|rank| self.rank(rank)).collect();
        self.group(members, rank)
    }

    /// A rank as such.
    pub(super) fn rank(&self, rank: usize) -> Address {
        let channel = self.wire.world.everybody;
        Address { channel, number: rank as c_int, rank, to: 0, from: 0 }
    }

    /// What every member says, 1 or 0, asked of all.
    pub(super) fn ask(&mut self, group: Group, say: bool) -> Result<Vec<u8>, Stopped> {
        let (mut all, say) = (vec![0; group.size], u8::from(say));
        let (input, out) = (&raw const say, all.as_mut_ptr());
        // SAFETY: a byte of each member; both buffers are this function's.
        unsafe { self.meet(group, &Collective::AllGather { outer: 1, chunk: 1, input, out })? };
        Ok(all)
    }

    fn address(&self, group: Group, member: usize) -> Address {
        self.groups[group.id][member]
    }

    /// So many bytes to receive into.
    fn room(&mut self, bytes: usize) -> Result<*mut u8, Stopped> {
        let room = self.incoming.of(bytes);
        room.map_err(|problem| self.give_up(problem))
    }

    /// So many bytes to send from.
    fn packed(&mut self, bytes: usize) -> Result<*mut u8, Stopped> {
        let room = self.outgoing.of(bytes);
        room.map_err(|problem| self.give_up(problem))
    }

    pub(super) fn give_up(&mut self, problem: String) -> Stopped {
        self.wire.problem.get_or_insert(problem);
        Stopped
    }

    /// Sends `bytes` to every other member from where `from` says, and receives as many from each
    /// where `to` says.
    ///
    /// # Safety
    ///
    /// What they say is good for the bytes; nobody else touches the latter, or writes to the former.
    unsafe fn swap(
        &mut self,
        group: Group,
        bytes: usize,
        from: impl Fn(usize) -> *const u8,
        to: impl Fn(usize) -> *mut u8,
    ) -> Result<(), Stopped> {
        for (giver, taker) in neighbours(group) {
            // SAFETY: `from` and `to` are good for the bytes, and nobody else touches them, until `finish`
            // has returned below.
            unsafe {
                self.wire.receive(self.address(group, giver), to(giver), bytes);
                self.wire.send(self.address(group, taker), from(taker), bytes);
            }
        }
        self.wire.finish()
    }

    /// Notes where the members' inputs are.
    fn set_peers(&mut self, group: Group, own: *const u8, arrival: impl Fn(usize) -> *mut u8) {
        let at = |member| if member == group.rank { own } else { arrival(member).cast_const() };
        self.peers.clear();
        self.peers.extend((0..group.size).map(at));
        self.inputs.clear();
        self.inputs.extend_from_slice(&self.peers);
    }
}

/// Whom a member receives from and whom it sends to, pair by pair; everybody but itself.
fn neighbours(group: Group) -> impl Iterator<Item = (usize, usize)> {
    let Group { rank, size, .. } = group;
    (1..size).map(move |far| ((rank + size - far) % size, (rank + far) % size))
}

impl Messages {
    /// Does its part of a collective; returns when the buffers are the caller's again.
    ///
    /// # Safety
    ///
    /// * Every member of the group meets for the same collectives, of the same sizes, in the same order.
    /// * The collective's pointers are good for the sizes that it states, those of what is folded aligned
    ///   to elements; inputs are initialised. A pointer to what this member may lack may be any.
    /// * Until this returns nobody else touches the buffers.
    pub(super) unsafe fn meet(
        &mut self,
        group: Group,
        collective: &Collective,
    ) -> Result<(), Stopped> {
        // SAFETY: each method asks of its arguments what `meet` asks of a collective that has them.
        unsafe {
            match *collective {
                Collective::AllReduce { fold, order, ref parts } => {
                    self.all_reduce(group, fold, order, parts)
                }
                Collective::AllGather { outer, chunk, input, out } => {
                    self.all_gather(group, outer, chunk, input, out)
                }
                Collective::ReduceScatter { fold, outer, chunk, input, out } => {
                    self.reduce_scatter(group, fold, outer, chunk, input, out)
                }
                Collective::AllToAll { ref exchange, input, out } => {
                    self.all_to_all(group, exchange, input, out)
                }
                Collective::Permute { source, target, bytes, input, out } => {
                    self.permute(group, source, target, bytes, input, out)
                }
                Collective::ReduceTo { fold, root, elements, input, out } => {
                    self.reduce_to(group, fold, root, elements, input, out)
                }
                Collective::Broadcast { root, bytes, input, out } => {
                    self.broadcast(group, root, bytes, input, out)
                }
            }
        }
    }
}

/// The collectives.
///
/// # Safety
///
/// Of all: that of [`meet`](Self::meet), for the collective of that name with these arguments.
impl Messages {
    unsafe fn all_gather(
        &mut self,
        group: Group,
        outer: usize,
        chunk: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let bytes = outer * chunk;
        let at = |o: usize, member: usize| out.wrapping_add((o * group.size + member) * chunk);
        // SAFETY: chunks lie within the input, what arrived and `out`.
        let put = |member, from: *const u8| unsafe {
            for o in 0..outer {
                ptr::copy_nonoverlapping(from.add(o * chunk), at(o, member), chunk);
            }
        };
        put(group.rank, input);
        if outer == 1 {
            // SAFETY: each member has its place in `out`.
            return unsafe { self.swap(group, bytes, |_| input, |member| at(0, member)) };
        }
        let room = self.room(bytes * group.size)?;
        let arrival = |member: usize| room.wrapping_add(member * bytes);
        // SAFETY: there is room for each member.
        unsafe { self.swap(group, bytes, |_| input, arrival)? };
        let others = (0..group.size).filter(|&member| member != group.rank);
        others.for_each(|member| put(member, arrival(member)));
        Ok(())
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
        let (bytes, whole) = (chunk * fold.size, outer * chunk * fold.size);
        let stride = whole.next_multiple_of(ALIGNMENT);
        let room = self.room(stride * group.size)?;
        let (mut pieces, mut apart) = (input, whole);
        if outer > 1 {
            let packed = self.packed(stride * group.size)?;
            for (o, member) in (0..outer).flat_map(|o| (0..group.size).map(move |m| (o, m))) {
                // SAFETY: within the input; there is room for each member.
                unsafe {
                    let from = input.add((o * group.size + member) * bytes);
                    let to = packed.add(member * stride + o * bytes);
                    ptr::copy_nonoverlapping(from, to, bytes);
                }
            }
            (pieces, apart) = (packed, stride);
        }
        let from = |member: usize| pieces.wrapping_add(member * apart);
        let arrival = |member: usize| room.wrapping_add(member * stride);
        // SAFETY: each member has its place, packed and in the room.
        unsafe { self.swap(group, whole, from, arrival)? };
        self.set_peers(group, from(group.rank), arrival);
        // SAFETY: each member's elements are in its place, whole, ours in the input; `out` is disjoint from
        // these.
        unsafe { fold.run(&self.inputs, 0, &[out], 0, outer * chunk) };
        Ok(())
    }

    unsafe fn all_to_all(
        &mut self,
        group: Group,
        exchange: &Exchange,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let bytes = exchange.bytes / group.size;
        let stride = bytes.next_multiple_of(ALIGNMENT);
        let packed = self.packed(stride * group.size)?;
        let room = self.room(stride * group.size)?;
        let others = || (0..group.size).filter(|&member| member != group.rank);
        for member in others() {
            // SAFETY: the walk stays within a piece of the input; there is room for each member.
            unsafe {
                exchange.pack.copy(input.add(member * exchange.from), packed.add(member * stride));
            }
        }
        // SAFETY: within a piece of the input, and of the result.
        unsafe {
            let from = input.add(group.rank * exchange.from);
            exchange.walk.copy(from, out.add(group.rank * exchange.to));
        }
        let from = |member: usize| packed.wrapping_add(member * stride).cast_const();
        let arrival = |member: usize| room.wrapping_add(member * stride);
        // SAFETY: each member has its place, packed and in the room.
        unsafe { self.swap(group, bytes, from, arrival)? };
        for member in others() {
            // SAFETY: the walk stays within a piece of the result.
            unsafe { exchange.unpack.copy(arrival(member), out.add(member * exchange.to)) };
        }
        Ok(())
    }

    /// From this member to that one, as far as there are any.
    unsafe fn permute(
        &mut self,
        group: Group,
        source: Option<usize>,
        target: Option<usize>,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        // SAFETY: as large as every member's input, and disjoint.
        unsafe {
            match source {
                Some(member) if member == group.rank => {
                    ptr::copy_nonoverlapping(input, out, bytes);
                    return Ok(());
                }
                Some(member) => self.wire.receive(self.address(group, member), out, bytes),
                None => ptr::write_bytes(out, 0, bytes),
            }
            if let Some(member) = target {
                self.wire.send(self.address(group, member), input, bytes);
            }
        }
        self.wire.finish()
    }
}
