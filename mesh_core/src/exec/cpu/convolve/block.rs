//! The inner loops of convolutions: a block of sums held in vector registers.
//!
//! `c[row][lane] = sum over t of a[rows[row] + steps[t].0] * b[steps[t].1 + lane]`: row offsets and
//! step offsets are tables, so one loop serves all three directions, any number of windows and any
//! strides, and no image is ever unrolled into a matrix.
//!
//! A block of one vector per row needs a load per product, which is all that loads can do. Where
//! windows slide, the element that row `p` meets at tap `t + 1` is what row `p + 1` meets at tap
//! `t`: blocks of such rows take several taps at once and load every element once.

use crate::exec::cpu::vector::{Vector, put};

/// Offsets of one step in the scalar operand and in the vector operand.
pub(super) type Offsets = [i32; 2];

/// Most rows of a block.
pub(super) const MOST_ROWS: usize = 28;
/// Most elements of a block.
pub(super) const MOST_ELEMENTS: usize = 28 * 16;

/// What a block is made of.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, T> {
    pub(super) a: *const T,
    /// Per group of rows: where the first begins.
    pub(super) rows: &'a [isize; MOST_ROWS],
    /// From a row of a group to the next, and from a tap of a step to the next.
    pub(super) slide: isize,
    /// Steps of as many taps as [`Micro::taps`](super::micro::Micro::taps) says.
    pub(super) steps: [&'a [Offsets]; 2],
    pub(super) b: *const T,
    /// From a tap of a step to the next in `b`.
    pub(super) b_slide: isize,
    pub(super) c: *mut T,
    /// Per row: where its vectors go.
    pub(super) to: &'a [isize; MOST_ROWS],
    /// Whether `c` is read first.
    pub(super) accumulate: bool,
}

/// # Safety
///
/// All offsets lie within `a`, `b` and `c`.
pub(super) type Run<T> = unsafe fn(Block<'_, T>);

/// `P` groups of one row of `N` vectors; steps of one tap, of the first kind.
#[inline(always)]
pub(super) unsafe fn anywhere<V: Vector, const P: usize, const N: usize>(
    block: Block<'_, V::Element>,
) {
    let Block { a, rows, steps, b, c, to, accumulate, .. } = block;
    // SAFETY: all offsets of the block lie within its operands, and the machine has the vector's
    // instructions.
    unsafe {
        let mut sums = [[V::zero(); N]; P];
        for &[in_a, in_b] in steps[0] {
            let a = a.offset(in_a as isize);
            let b = b.offset(in_b as isize);
            let mut vectors = [V::zero(); N];
            for (n, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(b.add(n * V::LANES));
            }
            for (p, sums) in sums.iter_mut().enumerate() {
                let x = V::spread(*a.offset(rows[p]));
                for (n, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add_product(x, vectors[n]);
                }
            }
        }
        for (sums, &to) in sums.into_iter().zip(to) {
            for (n, sum) in sums.into_iter().enumerate() {
                put(sum, c.offset(to).add(n * V::LANES), accumulate);
            }
        }
    }
}

/// `G` groups of `P` rows of one vector, the rows of each as far apart as the first two; steps of one tap, of the first
/// kind. Addresses are computed from those of the groups' first rows: there are too few registers for all.
#[inline(always)]
pub(super) unsafe fn even<V: Vector, const G: usize, const P: usize>(block: Block<'_, V::Element>) {
    let mut rows = [0; MOST_ROWS];
    (0..G).for_each(|g| rows[g] = block.rows[g * P]);
    let block = Block { slide: block.rows[1] - block.rows[0], rows: &rows, ..block };
    // SAFETY: all offsets of the block lie within its operands, and the machine has the vector's
    // instructions.
    unsafe {
        let mut sums = [[V::zero(); P]; G];
        taps::<V, G, P, 1>(&block, block.steps[0], &mut sums);
        for (sum, &to) in sums.into_iter().flatten().zip(block.to) {
            put(sum, block.c.offset(to), block.accumulate);
        }
    }
}

/// `G` groups of `P` rows of one vector; steps of three taps and of two.
#[inline(always)]
pub(super) unsafe fn sliding<V: Vector, const G: usize, const P: usize>(
    block: Block<'_, V::Element>,
) {
    // SAFETY: all offsets of the block lie within its operands, and the machine has the vector's
    // instructions.
    unsafe {
        let mut sums = [[V::zero(); P]; G];
        taps::<V, G, P, 3>(&block, block.steps[0], &mut sums);
        taps::<V, G, P, 2>(&block, block.steps[1], &mut sums);
        for (sum, &to) in sums.into_iter().flatten().zip(block.to) {
            put(sum, block.c.offset(to), block.accumulate);
        }
    }
}

/// Adds steps of `T` taps.
#[inline(always)]
unsafe fn taps<V: Vector, const G: usize, const P: usize, const T: usize>(
    block: &Block<'_, V::Element>,
    steps: &[Offsets],
    sums: &mut [[V; P]; G],
) {
    let Block { a, rows, slide, b, b_slide, .. } = *block;
    let bases: [_; G] = std::array::from_fn(|g| a.wrapping_offset(rows[g]));
    // SAFETY: the offsets of `steps`, `T` taps of each, lie within the block's operands.
    unsafe {
        for &[in_a, in_b] in steps {
            let mut vectors = [V::zero(); T];
            for (t, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(b.offset(in_b as isize + t as isize * b_slide));
            }
            for (g, sums) in sums.iter_mut().enumerate() {
                let mut at = bases[g].wrapping_offset(in_a as isize);
                for q in 0..P + T - 1 {
                    let x = V::spread(*at);
                    at = at.wrapping_offset(slide);
                    for t in q.saturating_sub(P - 1)..T.min(q + 1) {
                        sums[q - t] = sums[q - t].add_product(x, vectors[t]);
                    }
                }
            }
        }
    }
}
