//! Large products of floats on x86-64, by the kernels of `faer`, which are a crate of their own. The only file that
//! names it.
//!
//! The crate packs into one buffer per thread (twice the size of the third-level cache, touched as needed), made at
//! the thread's first large product.

use super::number::{Large, Matrix, Number};
use crate::exec::cpu::isa::{Isa, isa};
use private_gemm_x86::{Accum, DType, DstKind, IType, InstrSet, gemm};
use std::ptr::null;

/// A float that the crate knows.
pub(super) trait Float: Number + From<u8> {
    const DTYPE: DType;
}

impl Float for f32 {
    const DTYPE: DType = DType::F32;
}

impl Float for f64 {
    const DTYPE: DType = DType::F64;
}

/// By the instructions of this machine, if the crate has kernels for them.
pub(super) fn large<T: Float>() -> Option<Large<T>> {
    match isa() {
        Isa::Avx512 => Some(product::<T, true>),
        Isa::Avx2 => Some(product::<T, false>),
        Isa::Portable => None,
    }
}

/// By the instructions of AVX-512, or else of AVX2.
///
/// # Safety
///
/// As [`Large`], and the machine has the instructions (of AVX2 with FMA).
pub(super) unsafe fn product<T: Float, const AVX512: bool>(
    [m, n, k]: [usize; 3],
    a: Matrix<*const T>,
    b: Matrix<*const T>,
    c: Matrix<*mut T>,
    accumulate: bool,
) {
    let instructions = if AVX512 { InstrSet::Avx512 } else { InstrSet::Avx256 };
    let one = T::from(1);
    let accumulate = if accumulate { Accum::Add } else { Accum::Replace };
    let (is_conjugate, threads) = (false, 1);
    // SAFETY: the caller's matrices, of elements as `DTYPE` says. There are no lists of rows and columns and no
    // diagonal.
    unsafe {
        gemm(
            T::DTYPE,
            IType::U64,
            instructions,
            m,
            n,
            k,
            c.at.cast(),
            c.rows,
            c.columns,
            null(),
            null(),
            DstKind::Full,
            accumulate,
            a.at.cast(),
            a.rows,
            a.columns,
            is_conjugate,
            null(),
            0,
            b.at.cast(),
            b.rows,
            b.columns,
            is_conjugate,
            (&raw const one).cast(),
            threads,
        );
    }
}
