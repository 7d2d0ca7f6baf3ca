//! Collectives to one member, and from one.

use std::ptr;

use super::super::super::comm::fold::Fold;
use super::super::super::comm::{Group, Stopped};
use super::Messages;
use crate::program::ALIGNMENT;

/// # Safety
///
/// Of both: that of [`Messages::meet`], for the collective of that name with these arguments.
impl Messages {
    pub(super) unsafe fn reduce_to(
        &mut self,
        group: Group,
        fold: Fold,
        root: usize,
        elements: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let bytes = elements * fold.size;
        if group.rank != root {
            // SAFETY: the input is that large.
            unsafe { self.wire.send(self.address(group, root), input, bytes) };
            return self.wire.finish();
        }
        let stride = bytes.next_multiple_of(ALIGNMENT);
        let room = self.room(stride * group.size)?;
        let arrival = |member: usize| room.wrapping_add(member * stride);
        for member in (0..group.size).filter(|&member| member != root) {
            let address = self.address(group, member);
            // SAFETY: there is room for each member.
            unsafe { self.wire.receive(address, arrival(member), bytes) };
        }
        self.wire.finish()?;
        self.set_peers(group, input, arrival);
        // SAFETY: each member's elements are in its place, whole, ours in the input; `out` is disjoint from
        // these.
        unsafe { fold.run(&self.inputs, 0, &[out], 0, elements) };
        Ok(())
    }

    /// Along a binary tree: who has it passes it on to those whose number, counted from the root,
    /// has one more bit, above its own.
    pub(super) unsafe fn broadcast(
        &mut self,
        group: Group,
        root: usize,
        bytes: usize,
        input: *const u8,
        out: *mut u8,
    ) -> Result<(), Stopped> {
        let Group { rank, size, .. } = group;
        let number = (rank + size - root) % size;
        let member = |number: usize| (number + root) % size;
        let highest = |number: usize| 1 << number.ilog2();
        if number == 0 {
            // SAFETY: as large as the root's input.
            unsafe { ptr::copy_nonoverlapping(input, out, bytes) };
        } else {
            let parent = self.address(group, member(number - highest(number)));
            // SAFETY: as large as the root's input.
            unsafe { self.wire.receive(parent, out, bytes) };
            self.wire.finish()?;
        }
        let first = if number == 0 { 1 } else { 2 * highest(number) };
        let bits = std::iter::successors(Some(first), |bit| Some(2 * bit));
        for child in bits.map(|bit| number + bit).take_while(|&child| child < size) {
            let child = self.address(group, member(child));
            // SAFETY: it has arrived whole.
            unsafe { self.wire.send(child, out, bytes) };
        }
        self.wire.finish()
    }
}
