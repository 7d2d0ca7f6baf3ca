//! Elementary functions of f32 in plain scalar arithmetic that compilers vectorise.
//!
//! Only additions, multiplications, divisions, fused multiply-adds (`mul_add`, rounded once
//! everywhere), comparisons and bit operations are used, so a result depends on its operand alone,
//! in every instruction set and at every place of a vector. A processor without fused multiply-adds
//! computes them slowly. The polynomials are weighted minimax fits (Remez exchange) of the remainders
//! given beside them. Bounds in ulps of the exact result are tested on every 211th f32.

mod pow;

pub(super) use pow::pow;

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

/// e to the x; at most 1 ulp off, subnormal results included.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // NaN passes both.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND_F32);
    let n = shifted - ROUND_F32;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    // (exp(r) - 1 - r) / r^2
    let q = poly(
        r,
        [0.5, 0.166_666_66, 0.041_666_266, 0.008_333_511, 0.001_394_686_6, 0.000_197_881_53],
    );
    let y = 1.0 + (r * r).mul_add(q, r);
    // Multiplying down to nothing is a hundred times as slow as multiplying nothing, and masked
    // logits are many.
    let y = if x < -104.0 { 0.0 } else { y };
    // 2^n in two factors, so that neither overflows and a subnormal result is rounded once.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND_F32.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    y * power(half) * power(n.wrapping_sub(half))
}

/// Natural logarithm; at most 0.9 ulp off.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    /// 2^23: what one in the exponent adds to a number's bits.
    const UNIT: f32 = 8_388_608.0;
    /// The bits above the mantissa.
    const UPPER: i32 = -1 << 23;
    /// Bits of the root of 1/2.
    const LEAST: i32 = 0x3f35_04f3;
    let tiny = x < f32::MIN_POSITIVE;
    // As factor and summand: compilers would compute both cases of a choice.
    let (factor, less) = if tiny { (UNIT, 23.0 * UNIT) } else { (1.0, 0.0) };
    // x = 2^e m, m in [sqrt(1/2), sqrt(2)); e by the unit.
    let bits = (x * factor).to_bits() as i32;
    let upper = bits.wrapping_sub(LEAST) & UPPER;
    let m = f32::from_bits(bits.wrapping_sub(upper) as u32);
    let e = upper as f32 - less;
    let f = m - 1.0;
    // (log(1 + f) - f) / f^2
    let p = poly(
        f,
        [
            -0.5,
            0.333_333_3,
            -0.250_008_23,
            0.200_012_53,
            -0.166_232_4,
            0.142_006_8,
            -0.131_604_5,
            0.127_712_74,
            -0.076_467_01,
        ],
    );
    let small = (f * f).mul_add(p, e * (LN2_LO / UNIT));
    // Infinity, or NaN, comes to itself.
    let e = if x < f32::INFINITY { e } else { x };
    let y = e.mul_add(LN2_HI / UNIT, f + small);
    let end = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > 0.0 { y } else { end }
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
    let shifted = a.mul_add(2.0 * std::f32::consts::LOG2_E, ROUND);
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
    1.0 / (1.0 + exp(-x))
}

/// Operands from which [`sin`] and [`cos`] are wrong: too many turns for their argument reduction.
#[inline(always)]
pub(super) fn is_far(x: f32) -> bool {
    x.abs() > 32_768.0
}

/// The angle's distance from the nearest quarter turn, and that quarter.
#[inline(always)]
fn quarter(x: f32) -> (f32, u32) {
    /// pi/2 in three parts.
    const HI: f32 = 1.570_796_4;
    const MIDDLE: f32 = -4.371_139e-8;
    const LO: f32 = -1.715_123_8e-15;
    let shifted = x.mul_add(std::f32::consts::FRAC_2_PI, ROUND_F32);
    let n = shifted - ROUND_F32;
    let r = n.mul_add(-HI, x);
    let r = n.mul_add(-MIDDLE, r);
    (n.mul_add(-LO, r), shifted.to_bits())
}

/// Sine or cosine by quarter.
#[inline(always)]
fn wave(r: f32, quarter: u32) -> f32 {
    let z = r * r;
    // (sin(r) / r - 1) / r^2
    let p = poly(z, [-0.166_666_66, 0.008_333_329, -0.000_198_393_27, 2.718_237_3e-6]);
    let sine = (r * z).mul_add(p, r);
    // (cos(r) - 1 + r^2/2) / r^4
    let p = poly(z, [0.041_666_668, -0.001_388_888_4, 0.000_024_799_512, -2.720_955e-7]);
    let cosine = (z * z).mul_add(p, z.mul_add(-0.5, 1.0));
    let y = if quarter & 1 == 0 { sine } else { cosine };
    f32::from_bits(y.to_bits() ^ (quarter & 2) << 30)
}

/// Sine; at most 1.6 ulp off unless [`is_far`].
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let (r, quarter) = quarter(x);
    let y = wave(r, quarter);
    // Keeps the sign of zero.
    if x == 0.0 { x } else { y }
}

/// Cosine; at most 1.6 ulp off unless [`is_far`].
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    let (r, quarter) = quarter(x);
    wave(r, quarter.wrapping_add(1))
}

/// Error function; at most 5.5 ulp off.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    /// From here on the quotient below leaves the function, which is 1 less 2 ulp there.
    const END: f32 = 3.743_921;
    /// From here on it rounds to 1.
    const ONE: f32 = 3.92;
    let y = if x > END { END } else { x };
    let y = if y < -END { -END } else { y };
    let z = y * y;
    // erf(x) / x, as a quotient (of Eigen and XLA).
    const ORIGIN: f32 = std::f32::consts::FRAC_2_SQRT_PI;
    let above = [ORIGIN, 0.185_208_32, 0.050_955_694, 0.003_408_291, 2.290_506_5e-4];
    let below = [
        1.0,
        0.497_469_25,
        0.110_985_05,
        0.014_070_47,
        0.001_017_962_6,
        2.354_796_6e-5,
        -1.179_160_3e-7,
    ];
    let near = y * poly(z, above) / poly(z, below);
    if x.abs() < ONE || x.is_nan() { near } else { 1.0_f32.copysign(x) }
}

/// `1 - erf(x)`; at most 5 ulp off, subnormal results included.
#[inline(always)]
pub(super) fn erfc(x: f32) -> f32 {
    /// From here on it rounds to 0.
    const END: f32 = 10.1;
    /// Where the polynomial's argument is 0.
    const MIDDLE: f32 = 1.5;
    /// [`ROUND_F32`] and the exponent of 2^64.
    const ROUND: f32 = ROUND_F32 + 191.0;
    /// 2^-64.
    const TINY: f32 = 5.421_011e-20;
    let a = x.abs();
    // NaN passes.
    let a = if a > END { END } else { a };
    let inverse = 1.0 / (a + MIDDLE);
    // (a - MIDDLE) / (a + MIDDLE)
    let q = inverse.mul_add(-2.0 * MIDDLE, 1.0);
    // erfc(a) exp(a^2) (a + MIDDLE)
    let p = poly(
        q,
        [
            0.964_756_25,
            -0.507_850_65,
            0.075_622_02,
            0.047_782_872,
            -0.008_123_414,
            -0.009_553_263,
            -7.978_757e-4,
            0.002_006_428_8,
            8.730_865_7e-4,
            -3.070_157_8e-4,
            -2.517_7e-4,
        ],
    );
    let shifted = (a * a).mul_add(-std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // The square is not rounded.
    let r = n.mul_add(-LN2_LO, a.mul_add(-a, n * -LN2_HI));
    // (exp(r) - 1) / r
    let e = poly(r, [1.0, 0.499_999_94, 0.166_665_17, 0.041_668_247, 0.008_369_08, 0.001_381_729]);
    let y = p * inverse;
    let y = y.mul_add(r * e, y);
    // 2^n in two factors, so that a subnormal result is rounded once.
    let y = y * f32::from_bits(shifted.to_bits() << 23) * TINY;
    if x < 0.0 { 2.0 - y } else { y }
}

/// The angle of the point (x, y), as IEEE 754's `atan2` has its signs; at most 1.6 ulp off.
#[inline(always)]
pub(super) fn atan2(y: f32, x: f32) -> f32 {
    /// pi / 2 in two parts.
    const HI: f32 = 1.570_796_4;
    const LO: f32 = -4.371_139e-8;
    let (high, wide) = (y.abs(), x.abs());
    let is_steep = high > wide;
    // NaN is one of the two.
    let (least, most) = if is_steep { (wide, high) } else { (high, wide) };
    let most = if most == 0.0 { 1.0 } else { most };
    // Infinities too may be equal.
    let t = if least == most { 1.0 } else { least / most };
    // The angle is so many right angles, and the arc tangent of t more or less.
    let is_left = x.is_sign_negative();
    let from = if is_left { 2.0 } else { 0.0 };
    let from = if is_steep { 1.0 } else { from };
    let t = if is_steep != is_left { -t } else { t };
    let z = t * t;
    // (atan(t) / t - 1) / t^2
    let p = poly(
        z,
        [
            -0.333_333,
            0.199_985_3,
            -0.142_640_49,
            0.109_513_66,
            -0.084_017_18,
            0.057_938_095,
            -0.031_166_356,
            0.010_911_455,
            -0.001_793_339_2,
        ],
    );
    let angle = (t * z).mul_add(p, t);
    f32::mul_add(from, HI, f32::mul_add(from, LO, angle)).copysign(y)
}

/// The greater; NaN if either is.
#[inline(always)]
pub(super) fn max_f32(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The lesser; NaN if either is.
#[inline(always)]
pub(super) fn min_f32(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// The greater; NaN if either is.
#[inline(always)]
pub(super) fn max_f64(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

/// The lesser; NaN if either is.
#[inline(always)]
pub(super) fn min_f64(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() { a } else { b }
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
