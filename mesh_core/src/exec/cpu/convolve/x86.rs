//! Register blocks in AVX2 and AVX-512.

use super::block::{Block, anywhere, even, sliding};
use crate::exec::cpu::vector::{Vector, put};
use std::arch::x86_64::*;

/// # Safety
///
/// As [`super::block::Run`], and the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub(super) unsafe fn avx512<V: Vector, const P: usize, const N: usize>(
    args: Block<'_, V::Element>,
) {
    // SAFETY: all offsets of the block lie within its operands; the features above are enabled
    // here.
    unsafe { anywhere::<V, P, N>(args) };
}

/// # Safety
///
/// As [`super::block::Run`], and the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
pub(super) unsafe fn avx512_sliding<V: Vector, const G: usize, const P: usize>(
    args: Block<'_, V::Element>,
) {
    // SAFETY: all offsets of the block lie within its operands; the features above are enabled
    // here.
    unsafe { sliding::<V, G, P>(args) };
}

/// # Safety
///
/// As [`super::block::Run`], and the machine has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2<V: Vector, const P: usize, const N: usize>(args: Block<'_, V::Element>) {
    // SAFETY: all offsets of the block lie within its operands; the features above are enabled
    // here.
    unsafe { anywhere::<V, P, N>(args) };
}

/// # Safety
///
/// As [`super::block::Run`], and the machine has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2_sliding<V: Vector, const G: usize, const P: usize>(
    args: Block<'_, V::Element>,
) {
    // SAFETY: all offsets of the block lie within its operands; the features above are enabled
    // here.
    unsafe { sliding::<V, G, P>(args) };
}

/// # Safety
///
/// As [`super::block::Run`], the machine has AVX2 and FMA, and rows are even.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2_even<V: Vector, const G: usize, const P: usize>(
    args: Block<'_, V::Element>,
) {
    // SAFETY: all offsets of the block lie within its operands; the features above are enabled
    // here.
    unsafe { even::<V, G, P>(args) };
}

/// Rows of a group of [`even!`].
pub(super) const EVEN: usize = 7;

/// A block of 28 rows by one vector with every address in registers. Compilers keep the 28 row
/// offsets in memory, which costs a load per product; in groups of seven, `base + i * step` is
/// one addressing mode. `$as` names the vector's size in the class of all 32 registers.
macro_rules! even {
    ($name:ident, $t:ty, $v:ty, $as:literal, $fma:literal, $memory:literal, $spread:literal) => {
        /// # Safety
        ///
        /// As [`super::block::Run`], the machine has AVX-512, and rows are even.
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
        pub(super) unsafe fn $name(block: Block<'_, $t>) {
            macro_rules! add {
                ($sum:literal, $at:literal) => {
                    concat!(
                        $fma, " {", $sum, ":", $as, "}, {v:", $as, "}, ", $memory, " ptr [", $at,
                        "]", $spread
                    )
                };
            }
            let Block { a, rows, steps, b, c, to, accumulate, .. } = block;
            let step = (rows[1] - rows[0]) * size_of::<$t>() as isize;
            let (step3, step5) = (step * 3, step * 5);
            let bases = [0, 7, 14, 21].map(|p| a.wrapping_offset(rows[p]));
            // SAFETY: the machine has the instructions.
            let mut sums = [[unsafe { <$v>::zero() }; EVEN]; 4];
            for &[in_a, in_b] in steps[0] {
                // SAFETY: the caller's offsets.
                let vector = unsafe { <$v>::load(b.offset(in_b as isize)) };
                for (base, sums) in bases.iter().zip(&mut sums) {
                    let base = base.wrapping_offset(in_a as isize);
                    // SAFETY: the seven rows' elements at this step are valid.
                    unsafe {
                        std::arch::asm!(
                            add!("s0", "{a}"),
                            add!("s1", "{a} + {d}"),
                            add!("s2", "{a} + 2*{d}"),
                            add!("s3", "{a} + {d3}"),
                            add!("s4", "{a} + 4*{d}"),
                            add!("s5", "{a} + {d5}"),
                            add!("s6", "{a} + 2*{d3}"),
                            v = in(zmm_reg) vector,
                            a = in(reg) base,
                            d = in(reg) step,
                            d3 = in(reg) step3,
                            d5 = in(reg) step5,
                            s0 = inout(zmm_reg) sums[0],
                            s1 = inout(zmm_reg) sums[1],
                            s2 = inout(zmm_reg) sums[2],
                            s3 = inout(zmm_reg) sums[3],
                            s4 = inout(zmm_reg) sums[4],
                            s5 = inout(zmm_reg) sums[5],
                            s6 = inout(zmm_reg) sums[6],
                            options(pure, readonly, nostack, preserves_flags),
                        );
                    }
                }
            }
            for (sum, &to) in sums.into_iter().flatten().zip(to) {
                // SAFETY: rows lie within `c`.
                unsafe { put(sum, c.offset(to), accumulate) };
            }
        }
    };
}
even!(even_f32, f32, __m512, "z", "vfmadd231ps", "dword", "{{1to16}}");
even!(even_f64, f64, __m512d, "z", "vfmadd231pd", "qword", "{{1to8}}");
even!(even_f32_half, f32, __m256, "y", "vfmadd231ps", "dword", "{{1to8}}");
even!(even_f64_half, f64, __m256d, "y", "vfmadd231pd", "qword", "{{1to4}}");
