//! Matrix products. The only file that names `faer`.
//!
//! `faer` packs into one buffer per thread (twice the size of the third-level cache, touched as
//! needed), made at the thread's first large product; small products use none.

use super::isa::{Entry, Task, compiled};
use super::tiles::{Planned, TileProduct};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use std::marker::PhantomData;

/// A strided matrix: where it begins, elements between rows, between columns.
#[derive(Clone, Copy)]
pub(super) struct Matrix<T> {
    pub(super) at: T,
    pub(super) rows: isize,
    pub(super) columns: isize,
}

impl<T> Matrix<T> {
    pub(super) fn new(at: T, [rows, columns]: [isize; 2]) -> Self {
        Self { at, rows, columns }
    }

    fn flip(self) -> Self {
        Self { at: self.at, rows: self.columns, columns: self.rows }
    }
}

/// f32, f64 and i32 (which wraps).
pub(super) trait Number: Copy + Send + 'static {
    const ZERO: Self;
    /// Whether products are done by the crate, which likes some blocks better than others.
    const BLOCKS: bool;
    /// The product by register tiles, where the machine and the matrices have them.
    fn tiles(shape: [usize; 3], steps: [[isize; 2]; 3]) -> Option<Box<dyn Planned<Self>>>;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// # Safety
    ///
    /// As [`Gemm::run`].
    unsafe fn product(
        shape: [usize; 3],
        a: Matrix<*const Self>,
        b: Matrix<*const Self>,
        c: Matrix<*mut Self>,
        accumulate: bool,
    );
}

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Number for $float {
            const ZERO: Self = 0.0;
            const BLOCKS: bool = true;
            fn tiles(shape: [usize; 3], steps: [[isize; 2]; 3]) -> Option<Box<dyn Planned<Self>>> {
                TileProduct::new(shape, steps).map(|product| Box::new(product) as Box<_>)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self * other }
            unsafe fn product(
                [m, n, k]: [usize; 3],
                a: Matrix<*const Self>,
                b: Matrix<*const Self>,
                c: Matrix<*mut Self>,
                accumulate: bool,
            ) {
                // SAFETY: the caller's matrices.
                let (a, b, c) = unsafe {
                    (
                        MatRef::from_raw_parts(a.at, m, k, a.rows, a.columns),
                        MatRef::from_raw_parts(b.at, k, n, b.rows, b.columns),
                        MatMut::from_raw_parts_mut(c.at, m, n, c.rows, c.columns),
                    )
                };
                let accumulate = if accumulate { Accum::Add } else { Accum::Replace };
                matmul(c, accumulate, a, b, 1.0, Par::Seq);
            }
        }
    )*};
}
floats! { f32 f64 }

impl Number for i32 {
    const ZERO: Self = 0;
    const BLOCKS: bool = false;
    fn tiles(_: [usize; 3], _: [[isize; 2]; 3]) -> Option<Box<dyn Planned<Self>>> {
        None
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    unsafe fn product(
        [m, n, k]: [usize; 3],
        a: Matrix<*const Self>,
        b: Matrix<*const Self>,
        c: Matrix<*mut Self>,
        accumulate: bool,
    ) {
        for (i, j) in (0..m as isize).flat_map(|i| (0..n as isize).map(move |j| (i, j))) {
            // SAFETY: the caller's matrices.
            unsafe {
                let c = c.at.offset(i * c.rows + j * c.columns);
                let mut sum = if accumulate { *c } else { 0 };
                for l in 0..k as isize {
                    let x = *a.at.offset(i * a.rows + l * a.columns);
                    let y = *b.at.offset(l * b.rows + j * b.columns);
                    sum = sum.plus(x.times(y));
                }
                *c = sum;
            }
        }
    }
}

/// Products of matrices of one element type.
#[derive(Clone, Copy)]
pub(super) struct Gemm<T: Number> {
    dot: Entry<Dot<T>>,
    axpy: Entry<Axpy<T>>,
}

impl<T: Number> Gemm<T> {
    pub(super) fn new() -> Self {
        Self { dot: compiled::<Dot<T>>(), axpy: compiled::<Axpy<T>>() }
    }

    /// `c = a b`, or `c += a b`, for matrices of `m x k`, `k x n` and `m x n`.
    ///
    /// # Safety
    ///
    /// The matrices are valid, and `c` overlaps neither factor.
    pub(super) unsafe fn run(
        &self,
        [m, n, k]: [usize; 3],
        a: Matrix<*const T>,
        b: Matrix<*const T>,
        c: Matrix<*mut T>,
        accumulate: bool,
    ) {
        // SAFETY: the matrices are valid for `m`, `n` and `k` at their strides, and `c` overlaps
        // neither factor, as `run` requires.
        unsafe {
            if n == 1 && self.vector([m, k], a, (b.at, b.rows), (c.at, c.rows), accumulate) {
                return;
            }
            if m == 1 {
                let (x, y) = ((a.at, a.columns), (c.at, c.columns));
                if self.vector([n, k], b.flip(), x, y, accumulate) {
                    return;
                }
            }
            if k == 1 && (c.columns == 1 || c.rows == 1) {
                // Long rows of c, one multiple of the other factor each.
                let flip = c.columns != 1;
                let (m, n) = if flip { (n, m) } else { (m, n) };
                let (a, b, c) = if flip { (b.flip(), a.flip(), c.flip()) } else { (a, b, c) };
                if b.columns == 1 {
                    for i in 0..m as isize {
                        let row = c.at.offset(i * c.rows);
                        if !accumulate {
                            zero(row, n);
                        }
                        (self.axpy)((row, b.at, n, *a.at.offset(i * a.rows)));
                    }
                    return;
                }
            }
            T::product([m, n, k], a, b, c, accumulate);
        }
    }

    /// `y = a x`, or `y += a x`; false if memory does not run along either dim of `a`.
    ///
    /// # Safety
    ///
    /// As [`Gemm::run`].
    unsafe fn vector(
        &self,
        [m, k]: [usize; 2],
        a: Matrix<*const T>,
        x: (*const T, isize),
        y: (*mut T, isize),
        accumulate: bool,
    ) -> bool {
        // SAFETY: the matrix is valid for `m` and `k` at its strides, both vectors for theirs, and
        // `y` overlaps neither.
        unsafe {
            if k == 1 || a.columns == 1 && x.1 == 1 {
                for i in 0..m as isize {
                    let sum = (self.dot)((a.at.offset(i * a.rows), x.0, k));
                    let y = y.0.offset(i * y.1);
                    *y = if accumulate { (*y).plus(sum) } else { sum };
                }
            } else if m == 1 || a.rows == 1 && y.1 == 1 {
                if !accumulate {
                    zero(y.0, m);
                }
                for j in 0..k as isize {
                    (self.axpy)((y.0, a.at.offset(j * a.columns), m, *x.0.offset(j * x.1)));
                }
            } else {
                return false;
            }
        }
        true
    }
}

/// # Safety
///
/// `at` is valid for `n` elements.
unsafe fn zero<T: Number>(at: *mut T, n: usize) {
    // SAFETY: `at` is good for `n` elements, which nobody else uses.
    unsafe { std::slice::from_raw_parts_mut(at, n).fill(T::ZERO) };
}

/// Scalar product of two runs.
struct Dot<T>(PhantomData<T>);

impl<T: Number> Task for Dot<T> {
    type Args = (*const T, *const T, usize);
    type Result = T;

    #[inline(always)]
    unsafe fn run((a, b, n): Self::Args) -> T {
        // SAFETY: the caller's runs.
        let (a, b) =
            unsafe { (std::slice::from_raw_parts(a, n), std::slice::from_raw_parts(b, n)) };
        // Many lanes while there is much, few for most of the rest, then one.
        let long = n / 128 * 128;
        let short = n / 16 * 16;
        let mut sum = T::ZERO;
        if long > 0 {
            sum = lanes::<T, 128>(&a[..long], &b[..long]);
        }
        if short > long {
            sum = sum.plus(lanes::<T, 16>(&a[long..short], &b[long..short]));
        }
        for (&a, &b) in a[short..].iter().zip(&b[short..]) {
            sum = sum.plus(a.times(b));
        }
        sum
    }
}

/// Scalar product of whole rows of lanes.
#[inline(always)]
fn lanes<T: Number, const LANES: usize>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum = sum.plus(a.times(b));
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            sums[i] = sums[i].plus(sums[i + width]);
        }
    }
    sums[0]
}

/// Adds a multiple of a run to another.
struct Axpy<T>(PhantomData<T>);

impl<T: Number> Task for Axpy<T> {
    type Args = (*mut T, *const T, usize, T);
    type Result = ();

    #[inline(always)]
    unsafe fn run((y, x, n, by): Self::Args) {
        // SAFETY: the caller's runs.
        let (y, x) =
            unsafe { (std::slice::from_raw_parts_mut(y, n), std::slice::from_raw_parts(x, n)) };
        for (y, &x) in y.iter_mut().zip(x) {
            *y = y.plus(x.times(by));
        }
    }
}
