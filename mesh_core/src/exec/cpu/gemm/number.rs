//! What products are made of: numbers, matrices of them, and what multiplies large ones.

use crate::exec::cpu::tiles::Planned;

/// Makes `c = a b` or, if told to accumulate, `c += a b`, of matrices of `m x k`, `k x n` and `m x n`.
///
/// # Safety
///
/// The matrices are valid, and `c` overlaps neither factor.
pub(in crate::exec::cpu) type Large<T> =
    unsafe fn([usize; 3], Matrix<*const T>, Matrix<*const T>, Matrix<*mut T>, bool);

/// A strided matrix: where it begins, elements between rows, between columns.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Matrix<T> {
    pub(in crate::exec::cpu) at: T,
    pub(in crate::exec::cpu) rows: isize,
    pub(in crate::exec::cpu) columns: isize,
}

impl<T> Matrix<T> {
    pub(in crate::exec::cpu) fn new(at: T, [rows, columns]: [isize; 2]) -> Self {
        Self { at, rows, columns }
    }

    pub(super) fn flip(self) -> Self {
        Self { at: self.at, rows: self.columns, columns: self.rows }
    }
}

/// f32, f64 and i32 (which wraps).
pub(in crate::exec::cpu) trait Number: Copy + Send + 'static {
    const ZERO: Self;
    /// The product by register tiles, where the machine and the matrices have them.
    fn tiles(shape: [usize; 3], steps: [[isize; 2]; 3]) -> Option<Box<dyn Planned<Self>>>;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Large products, if a crate makes them, which likes some blocks better than others.
    fn large() -> Option<Large<Self>>;
}
