//! Transposition of matrices, in squares that fit registers.

#[cfg(target_arch = "x86_64")]
use super::isa::{Isa, isa};
use super::isa::{Task, compiled};
use std::marker::PhantomData;

/// A matrix to turn: `to[j * to_stride + i] = from[i * from_stride + j]` for all `i`, `j` within
/// the extents. Strides are in elements.
pub(super) struct Turn<T> {
    pub(super) extents: [usize; 2],
    pub(super) from: *const T,
    pub(super) from_stride: isize,
    pub(super) to: *mut T,
    pub(super) to_stride: isize,
}

/// Turns a matrix whose two sides are valid and apart.
pub(super) type Transpose<T> = unsafe fn(Turn<T>);

/// The fastest way for this machine.
pub(super) fn transpose<T: Copy>() -> Transpose<T> {
    #[cfg(target_arch = "x86_64")]
    if isa() == Isa::Avx512 && size_of::<T>() == 4 {
        return x86::by_sixteens::<T>;
    }
    #[cfg(target_arch = "x86_64")]
    if isa() == Isa::Avx2 && size_of::<T>() == 4 {
        return x86::by_eights::<T>;
    }
    compiled::<Plain<T>>()
}

impl<T: Copy> Turn<T> {
    /// Turns some columns after the other, so that what squares leave of them stays in cache.
    ///
    /// # Safety
    ///
    /// As [`Transpose`].
    pub(super) unsafe fn by_columns(self) {
        const COLUMNS: usize = 128;
        let [rows, columns] = self.extents;
        let turn = transpose::<T>();
        for first in (0..columns).step_by(COLUMNS) {
            let extents = [rows, COLUMNS.min(columns - first)];
            let from = self.from.wrapping_add(first);
            let to = self.to.wrapping_offset(first as isize * self.to_stride);
            // SAFETY: columns within the extents.
            unsafe { turn(Turn { extents, from, to, ..self }) };
        }
    }

    /// Element by element, for `i` and `j` in the ranges.
    ///
    /// # Safety
    ///
    /// As [`Transpose`]; the ranges lie within the extents.
    #[inline(always)]
    unsafe fn elements(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) {
        for i in rows.start as isize..rows.end as isize {
            for j in columns.start as isize..columns.end as isize {
                // SAFETY: `i` and `j` lie within the extents, for which `from` and `to` are valid
                // at their strides.
                unsafe {
                    *self.to.offset(j * self.to_stride + i) =
                        *self.from.offset(i * self.from_stride + j);
                }
            }
        }
    }
}

pub(super) struct Plain<T>(PhantomData<T>);

impl<T: Copy> Task for Plain<T> {
    type Args = Turn<T>;
    type Result = ();

    #[inline(always)]
    unsafe fn run(turn: Turn<T>) {
        const SIDE: usize = 16;
        let [m, n] = turn.extents;
        for i in (0..m).step_by(SIDE) {
            for j in (0..n).step_by(SIDE) {
                // SAFETY: within the extents.
                unsafe { turn.elements(i..m.min(i + SIDE), j..n.min(j + SIDE)) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::exec::cpu::transpose::Turn;
    use std::arch::x86_64::*;

    /// Transposes of elements of 4 bytes by whole squares; what these leave goes element by element.
    macro_rules! turns {
        ($($name:ident, $feature:literal, $side:literal, $square:ident;)*) => {$(
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name<T: Copy>(turn: Turn<T>) {
                let [m, n] = turn.extents;
                let [whole_m, whole_n] = [m, n].map(|extent| extent / $side * $side);
                for i in (0..whole_m).step_by($side) {
                    for j in (0..whole_n).step_by($side) {
                        let (x, y) = (i as isize, j as isize);
                        // SAFETY: a whole square within the extents.
                        unsafe {
                            let from = turn.from.offset(x * turn.from_stride + y).cast();
                            let to = turn.to.offset(y * turn.to_stride + x).cast();
                            $square(from, turn.from_stride, to, turn.to_stride);
                        }
                    }
                }
                // SAFETY: what the squares leave.
                unsafe {
                    turn.elements(0..whole_m, whole_n..n);
                    turn.elements(whole_m..m, 0..n);
                }
            }
        )*};
    }
    turns! {
        by_sixteens, "avx512f", 16, sixteens;
        by_eights, "avx2", 8, eights;
    }

    /// Eight rows of eight.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn eights(from: *const f32, from_stride: isize, to: *mut f32, to_stride: isize) {
        let mut a = [_mm256_setzero_ps(); 8];
        let mut b = a;
        // Rows i and i + 4 share registers, so that whole halves are loaded.
        for i in 0..4 {
            for half in 0..2 {
                // SAFETY: four elements each of rows i and i + 4.
                unsafe {
                    let at = from.offset(i as isize * from_stride + 4 * half as isize);
                    let low = _mm256_castps128_ps256(_mm_loadu_ps(at));
                    let high = _mm_loadu_ps(at.offset(4 * from_stride));
                    a[4 * half + i] = _mm256_insertf128_ps::<1>(low, high);
                }
            }
        }
        for half in [0, 4] {
            b[half] = _mm256_unpacklo_ps(a[half], a[half + 1]);
            b[half + 1] = _mm256_unpackhi_ps(a[half], a[half + 1]);
            b[half + 2] = _mm256_unpacklo_ps(a[half + 2], a[half + 3]);
            b[half + 3] = _mm256_unpackhi_ps(a[half + 2], a[half + 3]);
            a[half] = _mm256_shuffle_ps::<0x44>(b[half], b[half + 2]);
            a[half + 1] = _mm256_shuffle_ps::<0xee>(b[half], b[half + 2]);
            a[half + 2] = _mm256_shuffle_ps::<0x44>(b[half + 1], b[half + 3]);
            a[half + 3] = _mm256_shuffle_ps::<0xee>(b[half + 1], b[half + 3]);
        }
        for (j, &column) in a.iter().enumerate() {
            // SAFETY: eight elements of column j.
            unsafe { _mm256_storeu_ps(to.offset(j as isize * to_stride), column) };
        }
    }

    /// Sixteen rows of sixteen.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn sixteens(from: *const f32, from_stride: isize, to: *mut f32, to_stride: isize) {
        let mut a = [_mm512_setzero_ps(); 16];
        let mut b = a;
        for (i, row) in a.iter_mut().enumerate() {
            // SAFETY: sixteen elements of row i.
            *row = unsafe { _mm512_loadu_ps(from.offset(i as isize * from_stride)) };
        }
        for i in 0..8 {
            b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
            b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
        }
        for i in 0..4 {
            let pairs = |k: usize| _mm512_castps_pd(b[4 * i + k]);
            a[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs(0), pairs(2)));
            a[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs(0), pairs(2)));
            a[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs(1), pairs(3)));
            a[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs(1), pairs(3)));
        }
        // Quarters of registers: even ones of both operands, then odd ones.
        for i in 0..4 {
            b[i] = _mm512_shuffle_f32x4::<0x88>(a[i], a[4 + i]);
            b[4 + i] = _mm512_shuffle_f32x4::<0xdd>(a[i], a[4 + i]);
            b[8 + i] = _mm512_shuffle_f32x4::<0x88>(a[8 + i], a[12 + i]);
            b[12 + i] = _mm512_shuffle_f32x4::<0xdd>(a[8 + i], a[12 + i]);
        }
        for i in 0..8 {
            a[i] = _mm512_shuffle_f32x4::<0x88>(b[i], b[8 + i]);
            a[8 + i] = _mm512_shuffle_f32x4::<0xdd>(b[i], b[8 + i]);
        }
        for (j, &column) in a.iter().enumerate() {
            // SAFETY: sixteen elements of column j.
            unsafe { _mm512_storeu_ps(to.offset(j as isize * to_stride), column) };
        }
    }
}
