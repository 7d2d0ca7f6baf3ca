//! Large products of floats on other machines than x86-64, by the crate `gemm`, which allocates what it packs into. The
//! only file that names it.

use super::number::{Large, Matrix, Number};

/// The crate chooses by the instructions of this machine.
pub(super) fn large<T: Number + From<u8>>() -> Option<Large<T>> {
    Some(product)
}

/// # Safety
///
/// As [`Large`].
unsafe fn product<T: Number + From<u8>>(
    [m, n, k]: [usize; 3],
    a: Matrix<*const T>,
    b: Matrix<*const T>,
    c: Matrix<*mut T>,
    accumulate: bool,
) {
    let (of_result, one) = (T::from(u8::from(accumulate)), T::from(1));
    let is_conjugate = false;
    // SAFETY: the caller's matrices.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.at,
            c.columns,
            c.rows,
            accumulate,
            a.at,
            a.columns,
            a.rows,
            b.at,
            b.columns,
            b.rows,
            of_result,
            one,
            is_conjugate,
            is_conjugate,
            is_conjugate,
            gemm::Parallelism::None,
        );
    }
}
