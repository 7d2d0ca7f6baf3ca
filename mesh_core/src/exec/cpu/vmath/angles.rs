//! Sine, cosine and tangent, of radians, and their inverses.

use super::{ROUND_F32, poly};

/// pi / 2 in two parts.
const RIGHT_HI: f32 = 1.570_796_4;
const RIGHT_LO: f32 = -4.371_139e-8;

/// Operands from which [`sin`] and [`cos`] are wrong: too many turns for their argument reduction.
#[inline(always)]
pub(in crate::exec::cpu) fn is_far(x: f32) -> bool {
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
pub(in crate::exec::cpu) fn sin(x: f32) -> f32 {
    let (r, quarter) = quarter(x);
    let y = wave(r, quarter);
    // Keeps the sign of zero.
    if x == 0.0 { x } else { y }
}

/// Cosine; at most 1.6 ulp off unless [`is_far`].
#[inline(always)]
pub(in crate::exec::cpu) fn cos(x: f32) -> f32 {
    let (r, quarter) = quarter(x);
    wave(r, quarter.wrapping_add(1))
}

/// Tangent; at most 2.5 ulp off unless [`is_far`].
#[inline(always)]
pub(in crate::exec::cpu) fn tan(x: f32) -> f32 {
    let (r, quarter) = quarter(x);
    let z = r * r;
    // (tan(r) / r - 1) / r^2
    let p = poly(
        z,
        [
            0.333_333_5,
            0.133_326_74,
            0.054_059_874,
            0.021_277_163,
            0.010_860_183,
            4.660_115_5e-5,
            0.004_402_494_5,
        ],
    );
    let t = (r * z).mul_add(p, r);
    let is_odd = quarter & 1 == 1;
    let (above, below) = if is_odd { (-1.0, t) } else { (t, 1.0) };
    // Keeps the sign of zero.
    if x == 0.0 { x } else { above / below }
}

/// Whether a number's arc sine is computed from that of another, and the other: the arc sine of `x` is a right
/// angle less twice the other's; and the arc sine of the one or the other, without a sign.
#[inline(always)]
fn arc_sine(x: f32) -> (bool, f32) {
    let a = x.abs();
    let is_steep = a > 0.55;
    // The half of the complement has the sine sqrt((1 - a) / 2).
    let z = if is_steep { a.mul_add(-0.5, 0.5) } else { a * a };
    let s = if is_steep { z.sqrt() } else { a };
    // (asin(s) / s - 1) / s^2
    let p = poly(
        z,
        [0.166_666_4, 0.075_016_275, 0.044_311_3, 0.033_431_903, 0.008_651_32, 0.045_163_54],
    );
    (is_steep, (s * z).mul_add(p, s))
}

/// The angle whose sine is x; at most 1.5 ulp off, NaN beyond -1 and 1.
#[inline(always)]
pub(in crate::exec::cpu) fn asin(x: f32) -> f32 {
    let (is_steep, y) = arc_sine(x);
    let y = if is_steep { RIGHT_HI + y.mul_add(-2.0, RIGHT_LO) } else { y };
    y.copysign(x)
}

/// The angle whose cosine is x; at most 1.5 ulp off, NaN beyond -1 and 1.
#[inline(always)]
pub(in crate::exec::cpu) fn acos(x: f32) -> f32 {
    let (is_steep, y) = arc_sine(x);
    let y = y.copysign(x);
    // So many right angles, and more or less.
    let from = if x < 0.0 { 2.0 } else { 0.0 };
    let (from, more) = if is_steep { (from, 2.0 * y) } else { (1.0, -y) };
    f32::mul_add(from, RIGHT_HI, f32::mul_add(from, RIGHT_LO, more))
}

/// The angle of the point (x, y), as IEEE 754's `atan2` has its signs; at most 1.6 ulp off.
#[inline(always)]
pub(in crate::exec::cpu) fn atan2(y: f32, x: f32) -> f32 {
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
    f32::mul_add(from, RIGHT_HI, f32::mul_add(from, RIGHT_LO, angle)).copysign(y)
}
