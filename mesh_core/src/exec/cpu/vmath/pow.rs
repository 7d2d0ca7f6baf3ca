//! Powers of f32, computed in f64.

/// `a` to the power of `b`, as IEEE 754's `pow`; computed in f64, at most 0.51 ulp off.
#[inline(always)]
pub(in crate::exec::cpu) fn pow(a: f32, b: f32) -> f32 {
    /// 1.5 * 2^52, to which adding rounds to an integer, and the exponent of 1. The low bits then
    /// hold the integer's power of two.
    const ROUND: f64 = 6_755_399_441_055_744.0 + 1023.0;
    /// Powers of two from which f32 overflows, and comes to nothing, for certain.
    const MOST: f64 = 200.0;
    /// Bits of the greatest number below 0.
    const LEAST: u32 = 0x8000_0001;
    /// Bits of infinity below 0.
    const INFINITE: u32 = 0xff80_0000;
    let power = f64::from(b) * log2(f64::from(a.abs()));
    // No matter what the other one is.
    let power = if a.abs() == 1.0 || b == 0.0 { 0.0 } else { power };
    let t = if power > MOST { MOST } else { power };
    let t = if t < -MOST { -MOST } else { t };
    let shifted = t + ROUND;
    // 2^f
    let p = poly_f64(
        t - (shifted - ROUND),
        [
            0.999_999_999_961_634,
            0.693_147_182_065_357_3,
            0.240_226_512_031_138_1,
            0.055_504_095_456_695_41,
            0.009_618_015_034_796_335,
            0.001_333_312_148_435_049_8,
            0.000_154_748_073_692_851_34,
            1.559_374_281_896_183_6e-5,
        ],
    );
    let size = (p * f64::from_bits(shifted.to_bits() << 52)) as f32;
    let is_whole = b == b.floor();
    let half = 0.5 * b;
    let is_odd = is_whole && half != half.floor();
    let size = if a.is_sign_negative() && is_odd { -size } else { size };
    // Below 0 and finite; by bits, since compilers would look for every other kind of number.
    let is_negative = a.to_bits().wrapping_sub(LEAST) < INFINITE - LEAST;
    if is_negative && !is_whole { f32::NAN } else { size }
}

/// The logarithm of a number from 0 on that f32 has, to base two; NaN of NaN.
#[inline(always)]
fn log2(x: f64) -> f64 {
    /// Bits of 1.
    const ONE: u64 = 1023 << 52;
    /// Bits of the root of 1/2.
    const LEAST: u64 = 0x3fe6_a09e_667f_3bcd;
    /// Bits of 2^52, whose low bits count ones.
    const COUNT: u64 = 1075 << 52;
    let bits = x.to_bits();
    // x = 2^e m, m in [sqrt(1/2), sqrt(2)); the exponent of 1 is added to e.
    let shifted = bits.wrapping_add(ONE - LEAST) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(shifted << 52).wrapping_add(ONE));
    let e = f64::from_bits(shifted | COUNT) - (f64::from_bits(COUNT) + 1023.0);
    let s = (m - 1.0) / (m + 1.0);
    // log2(m) / s
    let p = poly_f64(
        s * s,
        [
            2.885_390_081_777_85,
            0.961_796_694_113_447_6,
            0.577_077_942_330_708_1,
            0.412_209_256_099_686_3,
            0.319_905_534_467_666_07,
            0.282_902_611_838_767_47,
        ],
    );
    let y = s.mul_add(p, e);
    // Infinity, or NaN.
    let y = if x < f64::INFINITY { y } else { x };
    if x == 0.0 { f64::NEG_INFINITY } else { y }
}

/// `p[0] + x p[1] + x^2 p[2] + …`
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
