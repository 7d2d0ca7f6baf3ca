//! Elementary functions of f32 in plain scalar arithmetic that compilers vectorise.
//!
//! Only additions, multiplications, divisions, fused multiply-adds (`mul_add`, rounded once
//! everywhere), comparisons and bit operations are used, so a result depends on its operand alone,
//! in every instruction set and at every place of a vector. A processor without fused multiply-adds
//! computes them slowly. The polynomials are weighted minimax fits (Remez exchange) of the remainders
//! given beside them, and so are quotients. Bounds in ulps of the exact result are tested on every 211th f32.

mod angles;
mod logarithms;
mod normal;
mod pow;

pub(super) use angles::{acos, asin, atan2, cos, is_far, sin, tan};
pub(super) use logarithms::{
    is_normal, log, log_normal, log1p, log2, log2_normal, log10, log10_normal,
};
pub(super) use normal::{erf, erf_inv, erfc, normal_cdf};
pub(super) use pow::pow;
use std::f32::consts::{LN_2, LOG2_E};

/// 1.5 * 2^23: adding it rounds to an integer, which the low bits then hold.
const ROUND_F32: f32 = 12_582_912.0;
/// Upper bits of ln 2; products with integers below 2^9 are exact.
const LN2_HI: f32 = 0.693_359_4;
/// ln 2 less the upper bits.
const LN2_LO: f32 = -2.121_944_4e-4;

/// `p[0] + x p[1] + x^2 p[2] + …`
#[inline(always)]
fn poly<const N: usize>(x: f32, p: [f32; N]) -> f32 {
    let mut sum = p[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.mul_add(x, p[i]);
    }
    sum
}

/// `exp(r)` for r between halves of ln 2, above and below 0.
#[inline(always)]
fn exp_near(r: f32) -> f32 {
    // (exp(r) - 1 - r) / r^2
    let q = poly(r, [0.499_999_94, 0.166_665_17, 0.041_668_247, 0.008_369_083, 0.001_381_735_4]);
    1.0 + (r * r).mul_add(q, r)
}

/// `y 2^n`, where the low bits have n and the exponent of 1 twice: in two factors, so that neither overflows
/// and a subnormal result is rounded once.
#[inline(always)]
fn scaled(y: f32, bits: u32) -> f32 {
    let half = bits >> 1;
    y * f32::from_bits(half << 23) * f32::from_bits(bits.wrapping_sub(half) << 23)
}

/// e to the x; at most 1.1 ulp off, subnormal results included.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// [`ROUND_F32`], and the exponent of 1 twice.
    const ROUND: f32 = ROUND_F32 + 254.0;
    // NaN passes both. What is surely nothing has a power of no bits: multiplying down to nothing is a
    // hundred times as slow as multiplying nothing, and masked logits are many.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -176.0 } else { x };
    let shifted = x.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    scaled(exp_near(r), shifted.to_bits())
}

/// 2 to the x; at most 1 ulp off, subnormal results included.
#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    /// [`ROUND_F32`], and the exponent of 1 twice.
    const ROUND: f32 = ROUND_F32 + 254.0;
    // As in `exp`.
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -151.0 { -254.0 } else { x };
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    // (2^r - 1) / r
    let q = poly(
        r,
        [LN_2, 0.240_225_94, 0.055_503_663, 0.009_625_444, 0.001_338_790_6, 1.333_250_7e-4],
    );
    scaled(q.mul_add(r, 1.0), shifted.to_bits())
}

/// Hyperbolic tangent; at most 2.5 ulp off.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    /// From here on it rounds to 1.
    const END: f32 = 9.02;
    /// [`ROUND_F32`] and the exponent of 1.
    const ROUND: f32 = ROUND_F32 + 127.0;
    let a = x.abs();
    // NaN passes.
    let a = if a > END { END } else { a };
    let shifted = a.mul_add(2.0 * LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-0.5 * LN2_LO, n.mul_add(-0.5 * LN2_HI, a));
    // ((exp(2 r) - 1) / 2 - r) / r^2
    let q = poly(r, [1.000_000_1, 0.666_660_8, 0.333_325_4, 0.133_902_34, 0.044_670_373]);
    let near = (r * r).mul_add(q, r);
    // (exp(2 a) - 1) / 2
    let power = f32::from_bits(shifted.to_bits() << 23);
    let e = near.mul_add(power, power.mul_add(0.5, -0.5));
    (e / (e + 1.0)).copysign(x)
}

/// `1 / (1 + exp(-x))`; at most 2.5 ulp off above -87, and 0 instead of a subnormal below.
#[inline(always)]
pub(super) fn logistic(x: f32) -> f32 {
    /// [`ROUND_F32`] and the exponent of 1.
    const ROUND: f32 = ROUND_F32 + 127.0;
    // The power's bits are 0 from the one on, and those of infinity from the other on; NaN passes.
    let x = if x > 88.3 { 88.3 } else { x };
    let x = if x < -88.5 { -88.5 } else { x };
    let shifted = x.mul_add(-LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, -x));
    let power = f32::from_bits(shifted.to_bits() << 23);
    1.0 / exp_near(r).mul_add(power, 1.0)
}

/// `|a|` with the sign of `b`, in which NaN counts as positive.
#[inline(always)]
pub(super) fn copysign_f32(a: f32, b: f32) -> f32 {
    a.copysign(if b.is_nan() { 0.0 } else { b })
}

/// `|a|` with the sign of `b`, in which NaN counts as positive.
#[inline(always)]
pub(super) fn copysign_f64(a: f64, b: f64) -> f64 {
    a.copysign(if b.is_nan() { 0.0 } else { b })
}

/// The greater; NaN if either is.
#[inline(always)]
pub(super) fn max_f32(a: f32, b: f32) -> f32 {
    let greater = if a > b { a } else { b };
    // Not `a`, so that the choice above stays one instruction.
    if a.is_nan() { f32::NAN } else { greater }
}

/// The lesser; NaN if either is.
#[inline(always)]
pub(super) fn min_f32(a: f32, b: f32) -> f32 {
    let lesser = if a < b { a } else { b };
    // Not `a`, so that the choice above stays one instruction.
    if a.is_nan() { f32::NAN } else { lesser }
}

/// The greater; NaN if either is.
#[inline(always)]
pub(super) fn max_f64(a: f64, b: f64) -> f64 {
    let greater = if a > b { a } else { b };
    // Not `a`, so that the choice above stays one instruction.
    if a.is_nan() { f64::NAN } else { greater }
}

/// The lesser; NaN if either is.
#[inline(always)]
pub(super) fn min_f64(a: f64, b: f64) -> f64 {
    let lesser = if a < b { a } else { b };
    // Not `a`, so that the choice above stays one instruction.
    if a.is_nan() { f64::NAN } else { lesser }
}

/// The f32 that bf16 bits stand for.
#[inline(always)]
pub(super) fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest bf16, ties to even; NaN stays NaN.
#[inline(always)]
pub(super) fn narrow(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if x.is_nan() { ((bits >> 16) as u16) | 0x40 } else { rounded }
}
