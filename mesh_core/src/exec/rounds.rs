//! A loop on one processor.
#![allow(unsafe_code, reason = "moves values between rounds")]

use super::comm::{Comm, Stopped};
use super::cpu::Memory;
use super::executor::Action;
use super::record::Watch;

/// Bytes that are copied as they are.
pub(super) struct Span {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
    pub(super) bytes: usize,
}

impl Span {
    /// # Safety
    ///
    /// Both are good for the bytes and apart, or one.
    unsafe fn copy(&self) {
        if self.from != self.to.cast_const() {
            // SAFETY: as stated.
            unsafe { std::ptr::copy_nonoverlapping(self.from, self.to, self.bytes) };
        }
    }
}

/// A prepared loop. What is carried lives in the loop's outs, where the body's feeds for it, and for
/// what is captured, point as well.
pub(super) struct Repeat {
    /// With the step of the body each comes from.
    pub(super) actions: Vec<(usize, Action)>,
    pub(super) memory: Memory,
    pub(super) count: usize,
    pub(super) reverse: bool,
    /// Bools: whether there is a first round, and after each whether there is another.
    pub(super) condition: Option<(*const u8, *const u8)>,
    pub(super) position: *mut i32,
    /// What is carried into the first round.
    pub(super) first: Vec<Span>,
    /// `from` is the slice at position 0.
    pub(super) slices: Vec<Span>,
    /// `to` is the place of position 0.
    pub(super) stacks: Vec<Span>,
    /// From a round's results to what the next one carries.
    pub(super) next: Vec<Span>,
}

impl Repeat {
    /// # Safety
    ///
    /// As [`Executor::run`](super::executor::Executor::run).
    pub(super) unsafe fn run(
        &self,
        comm: &mut impl Comm,
        scratch: *mut u8,
        mut watch: Watch<'_>,
    ) -> Result<(), Stopped> {
        // SAFETY: pointers and sizes were prepared together from values that fit each other; a
        // bool is one byte that a step has written.
        unsafe {
            self.first.iter().for_each(|span| span.copy());
            let mut go_on = self.condition.is_none_or(|(first, _)| *first != 0);
            let mut round = 0;
            while go_on && round < self.count {
                let position = if self.reverse { self.count - 1 - round } else { round };
                self.position.write(position as i32);
                for Span { from, to, bytes } in &self.slices {
                    from.add(position * bytes).copy_to_nonoverlapping(*to, *bytes);
                }
                for (step, action) in &self.actions {
                    watch.step(*step, |body| action.run(comm, &self.memory, scratch, body))?;
                }
                go_on = self.condition.is_none_or(|(_, again)| *again != 0);
                for Span { from, to, bytes } in &self.stacks {
                    from.copy_to_nonoverlapping(to.add(position * bytes), *bytes);
                }
                self.next.iter().for_each(|span| span.copy());
                round += 1;
            }
        }
        Ok(())
    }
}
