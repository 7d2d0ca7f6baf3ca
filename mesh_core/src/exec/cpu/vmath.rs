//! Elementary functions of f32 in plain scalar arithmetic that compilers vectorise.
//!
//! Only additions, multiplications, divisions, fused multiply-adds (`mul_add`, rounded once
//! everywhere), comparisons and bit operations are used, so a result depends on its operand alone,
//! in every instruction set and at every place of a vector. A processor without fused multiply-adds
//! computes them slowly. The polynomials are weighted minimax fits (Remez exchange) of the remainders
//! given beside them. Bounds in ulps of the exact result are tested on every 211th f32.

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
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    // x = 2^e m, m in [sqrt(1/2), sqrt(2))
    let bits = scaled.to_bits() as i32;
    let e = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(e << 23) as u32);
    let e = e as f32 - if tiny { 23.0 } else { 0.0 };
    let f = m - 1.0;
    // (log(1 + f) - f + f^2/2) / f^3
    let p = poly(
        f,
        [
            0.333_333_13,
            -0.250_000_1,
            0.200_021_19,
            -0.166_679_96,
            0.142_195_52,
            -0.124_055_885,
            0.118_881_59,
            -0.116_756_54,
            0.067_466_5,
        ],
    );
    let square = f * f;
    let small = e.mul_add(LN2_LO, square.mul_add(-0.5, f * square * p));
    let y = e.mul_add(LN2_HI, f + small);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    // Negative, or NaN.
    if x >= 0.0 { y } else { f32::NAN }
}

/// Hyperbolic tangent; at most 1.4 ulp off.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let z = x * x;
    // (tanh(x) / x - 1) / x^2
    let p = poly(
        z,
        [-0.333_333_3, 0.133_331_8, -0.053_943_4, 0.021_681_644, -0.008_129_002, 0.002_097_721_7],
    );
    let near = (x * z).mul_add(p, x);
    let far = (1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0)).copysign(x);
    if x.abs() < 0.625 { near } else { far }
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
    const MIDDLE: f32 = 2.0;
    let a = x.abs();
    // NaN passes.
    let a = if a > END { END } else { a };
    // erfc(a) exp(a^2) (1 + 2 a)
    let p = [
        1.276_978_4,
        -0.092_763_82,
        -0.166_030_5,
        0.164_050_92,
        -0.054_218_337,
        -0.008_030_049_5,
        0.008_712_118_5,
        0.001_251_227_9,
        -0.001_428_294_7,
        -4.018_504e-4,
        1.759_978_3e-4,
        8.294_985e-5,
    ];
    let (sum, scale) = (a + MIDDLE, a.mul_add(2.0, 1.0));
    let q = (a - MIDDLE) / sum;
    // What rounding the square loses.
    let square = a * a;
    let lost = a.mul_add(a, -square);
    let e = exp(-square);
    let y = poly(q, p) / scale;
    let y = y.mul_add(-lost, y) * e;
    if x < 0.0 { 2.0 - y } else { y }
}

/// `a` to the power of `b`, as IEEE 754's `pow`; computed in f64, at most 0.51 ulp off.
#[inline(always)]
pub(super) fn pow(a: f32, b: f32) -> f32 {
    /// 1.5 * 2^52: adding it rounds to an integer, which the low bits then hold.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// Powers of two from which f32 overflows, and comes to nothing, for certain.
    const MOST: f64 = 200.0;
    let (x, y) = (f64::from(a.abs()), f64::from(b));
    let power = y * log2(x);
    let t = if power > MOST { MOST } else { power };
    let t = if t < -MOST { -MOST } else { t };
    let shifted = t + ROUND;
    // 2^f, whose Taylor series this is.
    let f = (t - (shifted - ROUND)) * std::f64::consts::LN_2;
    let p = poly_f64(
        f,
        [
            1.0,
            1.0,
            0.5,
            1.0 / 6.0,
            1.0 / 24.0,
            1.0 / 120.0,
            1.0 / 720.0,
            1.0 / 5_040.0,
            1.0 / 40_320.0,
            1.0 / 362_880.0,
        ],
    );
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    let size = (p * f64::from_bits(n.wrapping_add(1023) << 52)) as f32;
    let is_whole = b == b.floor();
    let half = 0.5 * b;
    let is_odd = is_whole && half != half.floor();
    let size = if a.is_sign_negative() && is_odd { -size } else { size };
    let is_real = is_whole || a >= 0.0 || a.is_infinite();
    let size = if is_real { size } else { f32::NAN };
    let size = if a.is_nan() || b.is_nan() { f32::NAN } else { size };
    let is_one = a == 1.0 || b == 0.0 || a == -1.0 && b.is_infinite();
    if is_one { 1.0 } else { size }
}

/// The logarithm of a number from 0 on that f32 has, to base two; NaN of NaN.
#[inline(always)]
fn log2(x: f64) -> f64 {
    /// Bits of the root of 1/2.
    const LEAST: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits();
    let e = ((bits.wrapping_sub(LEAST) as i64) >> 52) as i32;
    let m = f64::from_bits(bits.wrapping_sub((i64::from(e) << 52) as u64));
    let s = (m - 1.0) / (m + 1.0);
    // The area tangent of s, over s.
    let z = s * s;
    let p = poly_f64(
        z,
        [1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0, 1.0 / 15.0],
    );
    let y = f64::from(e) + s * p * (2.0 * std::f64::consts::LOG2_E);
    let y = if x == f64::INFINITY { x } else { y };
    if x == 0.0 { f64::NEG_INFINITY } else { y }
}

/// The angle of the point (x, y), as IEEE 754's `atan2Pi` has its signs; computed in f64, at most 0.51 ulp
/// off.
#[inline(always)]
pub(super) fn atan2(y: f32, x: f32) -> f32 {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    /// Infinity stands for a number that every other is nothing beside.
    const MOST: f64 = 1e100;
    /// The tangent of pi / 8.
    const STEEP: f64 = std::f64::consts::SQRT_2 - 1.0;
    let size = |x: f32| {
        let x = f64::from(x.abs());
        // NaN passes.
        if x > MOST { MOST } else { x }
    };
    let (high, wide) = (size(y), size(x));
    let is_steep = high > wide;
    let (least, most) = if is_steep { (wide, high) } else { (high, wide) };
    let most = if most == 0.0 { 1.0 } else { most };
    // From half of the way to the diagonal on, the angle from the diagonal.
    let is_far = least > STEEP * most;
    let (above, below) = if is_far { (least - most, least + most) } else { (least, most) };
    let t = above / below;
    // The arc tangent of t, over t: its Taylor series.
    let p = poly_f64(
        t * t,
        [
            1.0,
            -1.0 / 3.0,
            1.0 / 5.0,
            -1.0 / 7.0,
            1.0 / 9.0,
            -1.0 / 11.0,
            1.0 / 13.0,
            -1.0 / 15.0,
            1.0 / 17.0,
            -1.0 / 19.0,
            1.0 / 21.0,
        ],
    );
    let angle = t.mul_add(p, if is_far { FRAC_PI_4 } else { 0.0 });
    let angle = if is_steep { FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    (angle as f32).copysign(y)
}

/// As [`poly`].
#[inline(always)]
fn poly_f64<const N: usize>(x: f64, p: [f64; N]) -> f64 {
    let mut sum = p[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.mul_add(x, p[i]);
    }
    sum
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
