//! The error function, what it leaves of 1, and its inverse; the normal distribution.

use super::{LN2_HI, LN2_LO, ROUND_F32, log, poly};

/// Error function; at most 5.5 ulp off.
#[inline(always)]
pub(in crate::exec::cpu) fn erf(x: f32) -> f32 {
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
pub(in crate::exec::cpu) fn erfc(x: f32) -> f32 {
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

/// The share of a standard normal distribution that is below x; at most 5 ulp off, subnormal results included.
#[inline(always)]
pub(in crate::exec::cpu) fn normal_cdf(x: f32) -> f32 {
    /// From here on powers below have no bits: what is left is exactly 0, without an underflow, which is slow.
    const END: f32 = 18.164;
    /// Near 2 ln 2, but of so few bits that products with integers below 2^9 are exact.
    const UNIT: f32 = 22_713.0 / 16_384.0;
    /// Adding it rounds to an integer; the low bits hold that and the exponent of 2^111. Of such numbers this one's
    /// product with [`UNIT`] is nearest to an integer: [`ROUND_UNITS`], less 2^-13.
    const ROUND: f32 = 8_398_062.0;
    const ROUND_UNITS: f32 = 11_642_162.0;
    /// 2^111.
    const LARGE: f32 = f32::from_bits((127 + 111) << 23);
    let a = x.abs();
    // NaN passes.
    let a = if a > END { END } else { a };
    // a^2 = u - n UNIT, but for 2^-13; neither the square nor the product is rounded.
    let shifted = a.mul_add(a * (-1.0 / UNIT), ROUND);
    let u = a.mul_add(a, shifted.mul_add(UNIT, -ROUND_UNITS));
    // 2^(-u / UNIT) is (1 + t) / (1 - t), t = tanh(-u / UNIT ln(2) / 2): t / u
    let t = u * poly(u * u, [-0.250_000_48, 0.005_207_716_5, -0.000_127_485_04]);
    // The share below -a times 2^(a^2 / UNIT), as a quotient.
    let above = poly(a, [0.499_969_48, 0.326_786_55, 0.101_946_53, 0.013_477_767, 1.316_690_5e-4]);
    let below = poly(
        a,
        [
            LARGE,
            1.451_495_4 * LARGE,
            0.862_054_5 * LARGE,
            0.254_894_35 * LARGE,
            0.033_853_587 * LARGE,
            0.000_327_194_2 * LARGE,
        ],
    );
    // Times 2^n: a subnormal result is rounded by the division alone.
    let above = above.mul_add(t, above) * f32::from_bits(shifted.to_bits() << 23);
    let y = above / below.mul_add(-t, below);
    if x > 0.0 { 1.0 - y } else { y }
}

/// The number whose error function is x; at most 4 ulp off, infinite at -1 and 1, NaN beyond. The form is that of
/// Giles (2010, "Approximating the erfinv function").
#[inline(always)]
pub(in crate::exec::cpu) fn erf_inv(x: f32) -> f32 {
    let a = x.abs();
    // The differences are exact where it matters.
    let w = -log((1.0 - a) * (1.0 + a));
    // erfinv(x) / x, of w - 2.5 and of sqrt(w) - 3
    let middle = [
        1.501_409_4,
        0.246_640_82,
        -0.004_177_616_4,
        -0.001_253_850_5,
        2.184_996_4e-4,
        -4.343_094e-6,
        -3.495_634_7e-6,
        3.381_695e-7,
        2.536_615_2e-8,
    ];
    let tail = [
        2.832_976_8,
        1.001_672,
        0.009_443_671,
        -0.007_593_339,
        0.005_700_042_5,
        -0.003_772_706_7,
        0.001_459_845_2,
        1.964_042_5e-4,
        -2.996_185_2e-4,
    ];
    let y = if w > 5.0 { poly(w.sqrt() - 3.0, tail) } else { poly(w - 2.5, middle) };
    x * if a == 1.0 { f32::INFINITY } else { y }
}
