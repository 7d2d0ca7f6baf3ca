//! Folds along memory: lanes over rows, and lanes onto each other.

use super::fold::{Fold, Quick};

/// Elements after which the lanes are folded together: keeps sums of many terms accurate.
const BLOCK: usize = 4096;

/// Folds a run.
#[inline(always)]
pub(in crate::exec::cpu) fn fold_run<F: Fold>(run: &[F::Element]) -> F::Held {
    let mut total = F::START;
    for block in run.chunks(BLOCK) {
        let quick = if F::HAS_RARE { quick_block::<F>(block) } else { None };
        total = F::fold(total, quick.unwrap_or_else(|| fold_block::<F>(block)));
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

#[inline(always)]
fn fold_block<F: Fold>(block: &[F::Element]) -> F::Held {
    let long = block.len() / 128 * 128;
    let short = block.len() / 16 * 16;
    let mut held = F::START;
    if long > 0 {
        held = lanes::<F, 128>(&block[..long]);
    }
    if short > long {
        held = F::fold(held, lanes::<F, 16>(&block[long..short]));
    }
    for &x in &block[short..] {
        held = F::fold(held, F::load(x));
    }
    held
}

/// Folds whole rows of lanes.
#[inline(always)]
fn lanes<F: Fold, const LANES: usize>(rows: &[F::Element]) -> F::Held {
    // Of loops of known lengths over rows of its own, the compiler keeps the lanes in registers.
    let mut held = [F::START; LANES];
    for &row in rows.as_chunks::<LANES>().0 {
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
