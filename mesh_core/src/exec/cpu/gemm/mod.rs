//! Matrix products: large ones are made by crates that `x86` and `elsewhere` name, small ones and those with a vector here.

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
mod number;
mod small;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::fetch;
use super::isa::{Entry, Task, compiled};
use super::tiles::{Planned, TileProduct};
#[cfg(not(target_arch = "x86_64"))]
use elsewhere::large;
use number::Large;
pub(super) use number::{Matrix, Number};
use small::Small;
use std::marker::PhantomData;
#[cfg(target_arch = "x86_64")]
use x86::large;

/// Up to so many multiplications, packing factors takes longer than multiplying them.
const SMALL: usize = 16 * 16 * 16;

/// Bytes of a matrix that the first cache keeps.
const NEAR: usize = 32 << 10;

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Number for $float {
            const ZERO: Self = 0.0;
            fn tiles(shape: [usize; 3], steps: [[isize; 2]; 3]) -> Option<Box<dyn Planned<Self>>> {
                TileProduct::new(shape, steps).map(|product| Box::new(product) as Box<_>)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self * other }
            fn large() -> Option<Large<Self>> { large() }
        }
    )*};
}
floats! { f32 f64 }

impl Number for i32 {
    const ZERO: Self = 0;
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
    fn large() -> Option<Large<Self>> {
        None
    }
}

/// Products of matrices of one element type.
#[derive(Clone, Copy)]
pub(super) struct Gemm<T: Number> {
    dot: Entry<Dot<T>>,
    axpy: Entry<Axpy<T>>,
    small: Entry<Small<T>>,
    large: Option<Large<T>>,
}

impl<T: Number> Gemm<T> {
    pub(super) fn new() -> Self {
        Self {
            dot: compiled::<Dot<T>>(),
            axpy: compiled::<Axpy<T>>(),
            small: compiled::<Small<T>>(),
            large: T::large(),
        }
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
            match self.large {
                Some(large) if m * n * k > SMALL => large([m, n, k], a, b, c, accumulate),
                _ => (self.small)(([m, n, k], a, b, c, accumulate)),
            }
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
        let is_far = m * k * size_of::<T>() > NEAR;
        // SAFETY: the matrix is valid for `m` and `k` at its strides, both vectors for theirs, and
        // `y` overlaps neither.
        unsafe {
            if k == 1 || a.columns == 1 && x.1 == 1 {
                for i in 0..m as isize {
                    let row = a.at.offset(i * a.rows);
                    if is_far {
                        soon(row, k);
                    }
                    let sum = (self.dot)((row, x.0, k));
                    let y = y.0.offset(i * y.1);
                    *y = if accumulate { (*y).plus(sum) } else { sum };
                }
            } else if m == 1 || a.rows == 1 && y.1 == 1 {
                if !accumulate {
                    zero(y.0, m);
                }
                for j in 0..k as isize {
                    let column = a.at.offset(j * a.columns);
                    if is_far {
                        soon(column, m);
                    }
                    (self.axpy)((y.0, column, m, *x.0.offset(j * x.1)));
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

/// Asks for what stands behind a run of a matrix that is read in order.
#[inline(always)]
fn soon<T>(row: *const T, n: usize) {
    const AHEAD: usize = 8 << 10;
    fetch::run(row.cast::<u8>().wrapping_add(AHEAD), n * size_of::<T>(), fetch::to_first);
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
