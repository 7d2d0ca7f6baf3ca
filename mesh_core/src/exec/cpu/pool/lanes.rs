//! Neighbouring results, folded in registers over their taps.

use super::tap::{Body, Element, OPERANDS};
use crate::exec::cpu::isa::Task;
use crate::exec::cpu::reduce::Fold;
use std::marker::PhantomData;

/// Results side by side, all of as many taps.
pub(super) struct Lane<B: Body> {
    pub(super) out: *mut Element<B>,
    /// Operands 1 to 3: what belongs to the first result, and what its first tap sees.
    pub(super) seen: [*const Element<B>; OPERANDS - 1],
    /// Of each operand, from one result to the next.
    pub(super) strides: [isize; OPERANDS],
    pub(super) count: usize,
    /// Where taps lie from the first on, in operands 2 and 3.
    pub(super) taps: [*const isize; 2],
    pub(super) len: usize,
}

/// Folds results side by side.
pub(super) struct Lanes<B>(PhantomData<B>);

impl<B: Body> Task for Lanes<B> {
    type Args = Lane<B>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(lane: Lane<B>) {
        let [.., seen, beside] = lane.strides;
        let beside = if B::PAIRS { beside } else { seen };
        // SAFETY: the caller's results; a stride of 0 stands for those that are not known here.
        unsafe {
            match (seen, beside) {
                (1, 1) => lane.fold::<1>(),
                (2, 2) => lane.fold::<2>(),
                _ => lane.fold::<0>(),
            }
        }
    }
}

impl<B: Body> Lane<B> {
    /// Folds all, the last ones of a block twice if blocks do not fit.
    ///
    /// # Safety
    ///
    /// All results and what they see are valid and do not overlap; `STRIDE` is that of what is seen
    /// if it is not 0.
    #[inline(always)]
    unsafe fn fold<const STRIDE: isize>(&self) {
        // SAFETY: as promised; blocks end within the lanes.
        unsafe {
            let mut done = 0;
            while done + 64 <= self.count {
                self.block::<64, STRIDE>(done);
                done += 64;
            }
            while done < self.count {
                if self.count >= 16 {
                    self.block::<16, STRIDE>(done.min(self.count - 16));
                    done += 16;
                } else if self.count >= 4 {
                    self.block::<4, STRIDE>(done.min(self.count - 4));
                    done += 4;
                } else {
                    self.block::<1, STRIDE>(done);
                    done += 1;
                }
            }
        }
    }

    /// Folds `LANES` results from `first` on.
    ///
    /// # Safety
    ///
    /// As [`fold`](Self::fold); there are as many.
    #[inline(always)]
    unsafe fn block<const LANES: usize, const STRIDE: isize>(&self, first: usize) {
        let first = first as isize;
        let mut own = [B::Fold::store(B::Fold::START); LANES];
        let mut held = [B::Fold::START; LANES];
        // SAFETY: as promised.
        unsafe {
            if B::OWN {
                for (lane, own) in own.iter_mut().enumerate() {
                    *own = *self.seen[0].offset((first + lane as isize) * self.strides[1]);
                }
            }
            for tap in 0..self.len {
                let at = |k: usize| {
                    let tap = *self.taps[k].add(tap);
                    self.seen[k + 1].offset(tap + first * self.strides[k + 2])
                };
                let (seen, beside) = (at(0), if B::PAIRS { at(1) } else { at(0) });
                for lane in 0..LANES {
                    let [i, j] = match STRIDE {
                        0 => [self.strides[2], self.strides[3]],
                        _ => [STRIDE; 2],
                    };
                    let i = lane as isize * i;
                    let j = if B::PAIRS { lane as isize * j } else { i };
                    held[lane] =
                        B::tap(held[lane], [own[lane], *seen.offset(i), *beside.offset(j)]);
                }
            }
            for (lane, held) in held.into_iter().enumerate() {
                *self.out.offset((first + lane as isize) * self.strides[0]) = B::Fold::store(held);
            }
        }
    }
}
