//! `Map`: the body is interpreted tile by tile, so that a chain of operations costs one pass over
//! memory. A tile's registers lie in scratch and stay in the first-level cache.

mod ahead;
pub(super) mod casts;
mod code;
mod compiled;
mod fold;
mod frame;
pub(super) mod idioms;
pub(super) mod instr;
mod pairs;
mod place;
mod plan;
mod prepare;
mod terms;
pub(super) mod tile;
mod triples;

use crate::exec::cpu::{Kernel, Memory};
use code::{SLOT, pool_bytes};
use compiled::Map;
use frame::Frame;
pub(super) use prepare::{prepare, prepare_fold};

impl Kernel for Map {
    fn scratch_bytes(&self) -> usize {
        self.address_bytes() + pool_bytes(&self.pool) + self.slots * SLOT
    }

    unsafe fn run(&self, memory: &Memory, scratch: *mut u8) {
        // SAFETY: scratch has room for the addresses, the pool and the slots, in that order.
        let (at, registers) = unsafe {
            let registers = scratch.add(self.address_bytes());
            let numbers = self.pool.as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(numbers, registers, self.pool.len() * 8);
            let at = scratch.cast::<*mut u8>();
            at.write_bytes(0, self.addresses());
            (std::slice::from_raw_parts_mut(at, self.addresses()), registers)
        };
        if let Some(fold) = &self.fold {
            // SAFETY: the out's bytes, which no input shares.
            unsafe { fold.start(memory) };
        }
        for (at, place) in at.iter_mut().zip(&self.places) {
            *at = memory.pointer(place.value).wrapping_add(place.offset);
        }
        let mut is_aside = 0;
        for out in 0..self.outs() {
            let mut shared = (0..self.inputs).filter(|&input| at[input] == at[self.inputs + out]);
            let late = shared.any(|input| !self.may_take[out * self.inputs + input]);
            is_aside |= u64::from(late) << out.min(63);
            let made =
                if late { registers.wrapping_add(self.aside[out]) } else { at[self.inputs + out] };
            at[self.places.len() + out] = made;
        }
        at[self.addresses() - 1] = registers;
        let streams = self.ahead.places(&at[..self.places.len()]);
        let coming = &memory.coming;
        let mut frame = Frame { map: self, at, is_aside, streams, coming, first: true };
        // SAFETY: all places are valid for the map's loops, as the kernel's contract says, and
        // registers for its slots.
        unsafe { frame.walk(&self.outer.loops) };
    }
}
