//! Folds along memory: lanes over rows, and lanes onto each other.

use super::fold::{Fold, Quick};
use std::ops::Range;

/// Elements after which the lanes are folded together: keeps sums of many terms accurate.
const BLOCK: usize = 4096;

/// Folds a run.
#[inline(always)]
pub(in crate::exec::cpu) fn fold_run<F: Fold>(run: &[F::Element]) -> F::Held {
    let mut total = F::START;
    for block in run.chunks(BLOCK) {
        let quick = if F::HAS_RARE { quick_block::<F>(block) } else { None };
        // No closure: that would be compiled once for all instruction sets.
        let folded = match quick {
            Some(folded) => folded,
            // SAFETY: the block has these.
            None => unsafe { fold_block::<F, _>(block, 0..block.len()) },
        };
        total = F::fold(total, folded);
    }
    total
}

/// Elements of a run, wherever they come from.
pub(in crate::exec::cpu) trait Run<E>: Copy {
    /// Some of them, from one on.
    ///
    /// # Safety
    ///
    /// The run has them.
    unsafe fn lanes<const LANES: usize>(self, first: usize) -> [E; LANES];
}

impl<E: Copy> Run<E> for &[E] {
    #[inline(always)]
    unsafe fn lanes<const LANES: usize>(self, first: usize) -> [E; LANES] {
        // SAFETY: the run has them.
        unsafe { *self.as_ptr().add(first).cast() }
    }
}

/// Folds so many elements of a run, as [`fold_run`] does.
///
/// # Safety
///
/// The run has them.
#[inline(always)]
pub(in crate::exec::cpu) unsafe fn fold_all<F: Fold>(
    run: impl Run<F::Element>,
    len: usize,
) -> F::Held {
    let mut total = F::START;
    for first in (0..len).step_by(BLOCK) {
        // SAFETY: the caller's run.
        let folded = unsafe { fold_block::<F, _>(run, first..len.min(first + BLOCK)) };
        total = F::fold(total, folded);
    }
    total
}

/// As `fold_block`, in which no element is rare; `None` if one is.
#[inline(always)]
fn quick_block<F: Fold>(block: &[F::Element]) -> Option<F::Held> {
    let long = block.len() / 64 * 64;
    let short = block.len() / 16 * 16;
    let (mut held, mut rare) = watched::<F, 64>(&block[..long]);
    if short > long {
        let (more, also) = watched::<F, 16>(&block[long..short]);
        (held, rare) = (F::quick(held, more), rare | also);
    }
    for &x in &block[short..] {
        let x = F::load(x);
        (held, rare) = (F::quick(held, x), rare | F::is_rare(x));
    }
    (!rare).then_some(held)
}

/// Folds whole rows of lanes, and says whether an element is rare. As many lanes hold the last that was: with 64 lanes of
/// each, all are in registers.
#[inline(always)]
fn watched<F: Fold, const LANES: usize>(rows: &[F::Element]) -> (F::Held, bool) {
    let mut held = [F::START; LANES];
    let mut last = [F::START; LANES];
    for &row in rows.as_chunks::<LANES>().0 {
        for i in 0..LANES {
            let x = F::load(row[i]);
            held[i] = F::quick(held[i], x);
            last[i] = if F::is_rare(x) { x } else { last[i] };
        }
    }
    let mut rare = false;
    for x in last {
        rare |= F::is_rare(x);
    }
    (folded::<Quick<F>, LANES>(held), rare)
}

/// # Safety
///
/// The run has these.
#[inline(always)]
unsafe fn fold_block<F: Fold, R: Run<F::Element>>(run: R, block: Range<usize>) -> F::Held {
    let long = block.start + block.len() / 128 * 128;
    let short = block.start + block.len() / 16 * 16;
    let mut held = F::START;
    // SAFETY: the caller's block.
    unsafe {
        if long > block.start {
            held = lanes::<F, R, 128>(run, block.start..long);
        }
        if short > long {
            held = F::fold(held, lanes::<F, R, 16>(run, long..short));
        }
        for i in short..block.end {
            held = F::fold(held, F::load(run.lanes::<1>(i)[0]));
        }
    }
    held
}

/// Folds whole rows of lanes.
///
/// # Safety
///
/// The run has these.
#[inline(always)]
unsafe fn lanes<F: Fold, R: Run<F::Element>, const LANES: usize>(
    run: R,
    all: Range<usize>,
) -> F::Held {
    // Of loops of known lengths over rows of its own, the compiler keeps the lanes in registers.
    let mut held = [F::START; LANES];
    for first in all.step_by(LANES) {
        // SAFETY: the caller's range.
        let row = unsafe { run.lanes::<LANES>(first) };
        for i in 0..LANES {
            held[i] = F::fold(held[i], F::load(row[i]));
        }
    }
    folded::<F, LANES>(held)
}

/// Folds lanes together, halves onto halves.
#[inline(always)]
fn folded<F: Fold, const LANES: usize>(mut held: [F::Held; LANES]) -> F::Held {
    halve::<F, 64>(&mut held);
    halve::<F, 32>(&mut held);
    halve::<F, 16>(&mut held);
    halve::<F, 8>(&mut held);
    halve::<F, 4>(&mut held);
    halve::<F, 2>(&mut held);
    halve::<F, 1>(&mut held);
    held[0]
}

/// Folds the second `HALF` lanes onto the first, if there are so many.
#[inline(always)]
fn halve<F: Fold, const HALF: usize>(held: &mut [F::Held]) {
    if held.len() >= 2 * HALF {
        for i in 0..HALF {
            held[i] = F::fold(held[i], held[i + HALF]);
        }
    }
}
