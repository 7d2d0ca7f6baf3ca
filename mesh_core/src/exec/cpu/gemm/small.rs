//! Products of small matrices, which are multiplied where they lie: to pack them would take longer. Products of whole
//! numbers of any size are made here as well, and those of floats on an x86-64 without AVX2.

use super::number::{Matrix, Number};
use crate::exec::cpu::isa::Task;
use std::marker::PhantomData;

/// Rows of the result that are made at once, where there are as many.
const ROWS: usize = 4;

/// `c = a b`, or `c += a b`. The sum over depth goes from first to last, and `c` is added to it.
pub(super) struct Small<T>(PhantomData<T>);

impl<T: Number> Task for Small<T> {
    type Args = ([usize; 3], Matrix<*const T>, Matrix<*const T>, Matrix<*mut T>, bool);
    type Result = ();

    #[inline(always)]
    unsafe fn run(([m, n, k], a, b, c, accumulate): Self::Args) {
        let flip = c.columns != 1 && c.rows == 1;
        let (m, n) = if flip { (n, m) } else { (m, n) };
        let (a, b, c) = if flip { (b.flip(), a.flip(), c.flip()) } else { (a, b, c) };
        let mut first = 0;
        // SAFETY: columns of the caller's matrices.
        unsafe {
            first = columns::<T, 16>([m, n, k], a, b, c, accumulate, first);
            first = columns::<T, 4>([m, n, k], a, b, c, accumulate, first);
            columns::<T, 1>([m, n, k], a, b, c, accumulate, first);
        }
    }
}

/// Columns of the result from `first` on, so many at once, as long as there are as many. Returns the first of the rest.
///
/// # Safety
///
/// As [`Large`](super::number::Large).
#[inline(always)]
unsafe fn columns<T: Number, const COLUMNS: usize>(
    [m, n, k]: [usize; 3],
    a: Matrix<*const T>,
    b: Matrix<*const T>,
    c: Matrix<*mut T>,
    accumulate: bool,
    first: usize,
) -> usize {
    let mut j = first;
    while j + COLUMNS <= n {
        let mut i = 0;
        while i < m {
            let at = |i: usize| i as isize;
            // SAFETY: rows and columns of the caller's matrices.
            unsafe {
                let b = Matrix { at: b.at.offset(at(j) * b.columns), ..b };
                let a = Matrix { at: a.at.offset(at(i) * a.rows), ..a };
                let c = Matrix { at: c.at.offset(at(i) * c.rows + at(j) * c.columns), ..c };
                if i + ROWS <= m {
                    block::<T, ROWS, COLUMNS>(k, a, b, c, accumulate);
                    i += ROWS;
                } else {
                    block::<T, 1, COLUMNS>(k, a, b, c, accumulate);
                    i += 1;
                }
            }
        }
        j += COLUMNS;
    }
    j
}

/// The first rows and columns of a product.
///
/// # Safety
///
/// As [`Large`](super::number::Large).
#[inline(always)]
unsafe fn block<T: Number, const R: usize, const C: usize>(
    k: usize,
    a: Matrix<*const T>,
    b: Matrix<*const T>,
    c: Matrix<*mut T>,
    accumulate: bool,
) {
    let mut sums = [[T::ZERO; C]; R];
    for l in 0..k as isize {
        // SAFETY: an element of each row of `a`, and one of each column of `b`.
        unsafe {
            let b_row = b.at.offset(l * b.rows);
            let right: [T; C] = match b.columns {
                1 => *b_row.cast(),
                step => std::array::from_fn(|j| *b_row.offset(j as isize * step)),
            };
            for (i, sums) in (0..).zip(&mut sums) {
                let left = *a.at.offset(i * a.rows + l * a.columns);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = sum.plus(left.times(right));
                }
            }
        }
    }
    for (i, sums) in (0..).zip(sums) {
        for (j, sum) in (0..).zip(sums) {
            // SAFETY: an element of the block of `c`.
            unsafe {
                let to = c.at.offset(i * c.rows + j * c.columns);
                *to = if accumulate { (*to).plus(sum) } else { sum };
            }
        }
    }
}
