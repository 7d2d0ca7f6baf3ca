//! The registers of AVX2 and AVX-512.

use super::{Masked, Vector};
use std::arch::x86_64::*;

macro_rules! vectors {
    ($($v:ty, $t:ty, $lanes:literal, $load:ident $store:ident $zero:ident $set:ident
        $add:ident $fma:ident;)*) => {$(
        impl Vector for $v {
            type Element = $t;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn load(at: *const $t) -> Self {
                // SAFETY: the machine has the instruction, and `at` is valid for the lanes.
                unsafe { $load(at) }
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut $t) {
                // SAFETY: the machine has the instruction, and `at` is valid for the lanes.
                unsafe { $store(at, self) };
            }
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the machine has the instruction.
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the machine has the instruction.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn spread(a: $t) -> Self {
                // SAFETY: the machine has the instruction.
                unsafe { $set(a) }
            }
            #[inline(always)]
            fn opaque(mut index: isize) -> isize {
                // SAFETY: no instruction.
                unsafe {
                    std::arch::asm!("/* {0} */", inout(reg) index, options(pure, nomem, nostack, preserves_flags));
                }
                index
            }
            #[inline(always)]
            fn fetch(at: *const $t) {
                // SAFETY: every x86-64 has the instruction, which may be given any address.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(at.cast());
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(2 * $lanes - 1).cast());
                }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                // SAFETY: the machine has the instruction.
                unsafe { $fma(a, b, self) }
            }
        }
    )*};
}
vectors! {
    __m512, f32, 16, _mm512_loadu_ps _mm512_storeu_ps _mm512_setzero_ps _mm512_set1_ps
        _mm512_add_ps _mm512_fmadd_ps;
    __m512d, f64, 8, _mm512_loadu_pd _mm512_storeu_pd _mm512_setzero_pd _mm512_set1_pd
        _mm512_add_pd _mm512_fmadd_pd;
    __m256, f32, 8, _mm256_loadu_ps _mm256_storeu_ps _mm256_setzero_ps _mm256_set1_ps
        _mm256_add_ps _mm256_fmadd_ps;
    __m256d, f64, 4, _mm256_loadu_pd _mm256_storeu_pd _mm256_setzero_pd _mm256_set1_pd
        _mm256_add_pd _mm256_fmadd_pd;
    __m128, f32, 4, _mm_loadu_ps _mm_storeu_ps _mm_setzero_ps _mm_set1_ps
        _mm_add_ps _mm_fmadd_ps;
}

macro_rules! masked {
    ($($v:ty, $mask:ty, $load:ident $store:ident;)*) => {$(
        impl Masked for $v {
            type Mask = $mask;
            #[inline(always)]
            fn first(count: usize) -> $mask {
                if count < Self::LANES { (1 << count) - 1 } else { <$mask>::MAX }
            }
            #[inline(always)]
            unsafe fn load_some(mask: $mask, at: *const Self::Element) -> Self {
                // SAFETY: the machine has the instruction, and `at` is valid for the mask's lanes.
                unsafe { $load(mask, at) }
            }
            #[inline(always)]
            unsafe fn store_some(self, mask: $mask, at: *mut Self::Element) {
                // SAFETY: the machine has the instruction, and `at` is valid for the mask's lanes.
                unsafe { $store(at, mask, self) };
            }
        }
    )*};
}
masked! {
    __m512, u16, _mm512_maskz_loadu_ps _mm512_mask_storeu_ps;
    __m512d, u8, _mm512_maskz_loadu_pd _mm512_mask_storeu_pd;
}
