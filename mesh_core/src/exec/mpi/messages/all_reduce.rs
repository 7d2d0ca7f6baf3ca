//! All-reduce by messages.

use std::{iter, ptr};

use super::super::super::comm::fold::Fold;
use super::super::super::comm::{Group, Part, Stopped, fold_packed, pieces, share};
use super::{Messages, SMALL, SMALL_OF_TWO, neighbours};
use crate::program::{ALIGNMENT, FoldOrder};

impl Messages {
    /// # Safety
    ///
    /// That of [`Messages::meet`], for an all-reduce of these parts.
    pub(super) unsafe fn all_reduce(
        &mut self,
        group: Group,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        if group.size == 1 {
            for part in parts {
                // SAFETY: `out` is the input or disjoint from it.
                unsafe { ptr::copy(part.input, part.out, part.elements * fold.size) };
            }
            return Ok(());
        }
        let bytes: usize = parts.iter().map(|part| part.elements * fold.size).sum();
        let small = if group.size == 2 { SMALL_OF_TWO } else { SMALL };
        // SAFETY: the parts are good for their elements until this returns, and all members, which have
        // as many, choose alike.
        unsafe {
            match bytes * group.size <= small {
                true => self.fold_all(group, fold, order, parts),
                false => self.fold_shares(group, fold, order, parts),
            }
        }
    }

    /// Everybody gets everything and folds it.
    ///
    /// # Safety
    ///
    /// That of [`Messages::meet`], for an all-reduce of these parts.
    unsafe fn fold_all(
        &mut self,
        group: Group,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        let bytes = parts.iter().map(|part| part.elements * fold.size).sum::<usize>();
        let stride = bytes.next_multiple_of(ALIGNMENT);
        let room = self.room(stride * group.size)?;
        let arrival = |member: usize| room.wrapping_add(member * stride);
        let own = arrival(group.rank);
        let mut to = own;
        for part in parts {
            let bytes = part.elements * fold.size;
            // SAFETY: there is room for all parts.
            unsafe { ptr::copy_nonoverlapping(part.input, to, bytes) };
            to = to.wrapping_add(bytes);
        }
        // SAFETY: there is room for all members, each has its own.
        unsafe {
            match group.size.is_power_of_two() && group.size > 2 {
                true => self.double(group, stride, room)?,
                false => self.swap(group, bytes, |_| own.cast_const(), arrival)?,
            }
        }
        self.set_peers(group, own, arrival);
        // SAFETY: each member's parts are in its place in the room, whole; the outs are not in there.
        unsafe { fold_packed(fold, order, &self.peers, &mut self.inputs, parts) };
        Ok(())
    }

    /// Has everybody get what each of a power of two of members has at its place in the room: by
    /// recursive doubling, in as many rounds as the power (Thakur, Rabenseifner and Gropp, 2005,
    /// section 4.1).
    ///
    /// # Safety
    ///
    /// There is room for a stride of each member.
    unsafe fn double(&mut self, group: Group, stride: usize, room: *mut u8) -> Result<(), Stopped> {
        let rounds = iter::successors(Some(1), |have| Some(2 * have));
        for have in rounds.take_while(|&have| have < group.size) {
            let other = self.address(group, group.rank ^ have);
            let own = group.rank & !(have - 1);
            // SAFETY: within the room; both are over after the round.
            unsafe {
                self.wire.receive(other, room.add((own ^ have) * stride), have * stride);
                self.wire.send(other, room.add(own * stride), have * stride);
            }
            self.wire.finish()?;
        }
        Ok(())
    }

    /// Each member folds its share of everybody's inputs and sends it to everybody.
    ///
    /// # Safety
    ///
    /// That of [`Messages::meet`], for an all-reduce of these parts.
    unsafe fn fold_shares(
        &mut self,
        group: Group,
        fold: Fold,
        order: FoldOrder,
        parts: &[Part],
    ) -> Result<(), Stopped> {
        let total = parts.iter().map(|part| part.elements).sum();
        let share = |member| share(member, group.size, total);
        let own = share(group.rank);
        let stride = (own.len() * fold.size).next_multiple_of(ALIGNMENT);
        let room = self.room(stride * group.size)?;
        for (giver, taker) in neighbours(group) {
            let mut arrival = room.wrapping_add(giver * stride);
            let (from, to) = (self.address(group, giver), self.address(group, taker));
            // SAFETY: the room has a stride for each member; pieces lie within their parts, which
            // nobody writes to before this is over.
            unsafe {
                for (_, _, range) in pieces(parts, own.clone()) {
                    let bytes = range.len() * fold.size;
                    self.wire.receive(from, arrival, bytes);
                    arrival = arrival.wrapping_add(bytes);
                }
                for (_, part, range) in pieces(parts, share(taker)) {
                    let input = part.input.add(range.start * fold.size);
                    self.wire.send(to, input, range.len() * fold.size);
                }
            }
        }
        self.wire.finish()?;
        let mut before = 0;
        for (_, part, range) in pieces(parts, own.clone()) {
            let (at, bytes) = (range.start * fold.size, range.len() * fold.size);
            let arrival = |member: usize| room.wrapping_add(member * stride + before);
            self.set_peers(group, part.input.wrapping_add(at), arrival);
            order.arrange(group.rank, &self.peers, &mut self.inputs);
            // SAFETY: the piece as it arrived from each, and our own; the out is the latter or apart.
            unsafe { fold.run(&self.inputs, 0, &[part.out.add(at)], 0, range.len()) };
            before += bytes;
        }
        for (giver, taker) in neighbours(group) {
            let (from, to) = (self.address(group, giver), self.address(group, taker));
            // SAFETY: pieces lie within their parts; all inputs have been sent, so outs may change.
            unsafe {
                for (_, part, range) in pieces(parts, share(giver)) {
                    let out = part.out.add(range.start * fold.size);
                    self.wire.receive(from, out, range.len() * fold.size);
                }
                for (_, part, range) in pieces(parts, own.clone()) {
                    let out = part.out.add(range.start * fold.size);
                    self.wire.send(to, out, range.len() * fold.size);
                }
            }
        }
        self.wire.finish()
    }
}
