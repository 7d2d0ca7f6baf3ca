//! Elementary functions of f32 in plain scalar arithmetic that compilers vectorise.
//!
//! Only additions, multiplications, divisions, comparisons and bit operations are used, each
//! rounded by itself, so a result depends on its operand alone, in every instruction set and at
//! every place of a vector. The polynomials are weighted minimax fits (Remez exchange) of the
//! remainders given beside them. Bounds in ulps of the exact result are tested on every 97th f32.

/// 1.5 * 2^23: adding it rounds to an integer, which the low bits then hold.
const ROUND_F32: f32 = 12_582_912.0;
/// 1.5 * 2^52, the same for f64.
const ROUND_F64: f64 = 6_755_399_441_055_744.0;
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
        sum = sum * x + p[i];
    }
    sum
}

/// As [`poly`].
#[inline(always)]
fn poly_f64<const N: usize>(x: f64, p: [f64; N]) -> f64 {
    let mut sum = p[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + p[i];
    }
    sum
}

/// e to the x; at most 1 ulp off, subnormal results included.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // NaN passes both.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND_F32;
    let n = shifted - ROUND_F32;
    let r = (x - n * LN2_HI) - n * LN2_LO;
    // (exp(r) - 1 - r) / r^2
    let q = poly(
        r,
        [0.5, 0.166_666_66, 0.041_666_266, 0.008_333_511, 0.001_394_686_6, 0.000_197_881_53],
    );
    let y = 1.0 + (r + r * r * q);
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
    let small = e * LN2_LO + (f * square * p - 0.5 * square);
    let y = e * LN2_HI + (f + small);
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
    let near = x + x * (z * p);
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
    x.abs() > 1_048_576.0
}

/// The angle's distance from the nearest quarter turn, and that quarter.
#[inline(always)]
fn quarter(x: f32) -> (f64, u32) {
    /// Upper 33 bits of pi/2: products with integers below 2^20 are exact.
    const HALF_PI_HI: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const HALF_PI_LO: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(x);
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUND_F64;
    let n = shifted - ROUND_F64;
    ((x - n * HALF_PI_HI) - n * HALF_PI_LO, shifted.to_bits() as u32)
}

/// Sine or cosine by quarter.
#[inline(always)]
fn wave(r: f64, quarter: u32) -> f32 {
    let z = r * r;
    // (sin(r) / r - 1) / r^2
    let p = [
        -0.166_666_666_414_264_6,
        0.008_333_329_362_272_717,
        -0.000_198_393_271_342_884_03,
        2.718_237_257_297_054e-6,
    ];
    let sine = r + r * (z * poly_f64(z, p));
    // (cos(r) - 1 + r^2/2) / r^4
    let p = [
        0.041_666_666_622_477_056,
        -0.001_388_888_372_262_828_5,
        0.000_024_799_511_765_578_93,
        -2.720_954_791_331_386_5e-7,
    ];
    let cosine = (1.0 - 0.5 * z) + z * z * poly_f64(z, p);
    let y = if quarter & 1 == 0 { sine } else { cosine };
    (if quarter & 2 == 0 { y } else { -y }) as f32
}

/// Sine; at most 0.51 ulp off unless [`is_far`].
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let (r, quarter) = quarter(x);
    let y = wave(r, quarter);
    // Keeps the sign of zero.
    if x == 0.0 { x } else { y }
}

/// Cosine; at most 0.51 ulp off unless [`is_far`].
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    let (r, quarter) = quarter(x);
    wave(r, quarter.wrapping_add(1))
}

/// Error function; at most 1.6 ulp off.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    /// From here on the quotient below leaves the function, which is 1 less 2 ulp there.
    const END: f64 = 3.743_921_162_776_799_4;
    /// From here on it rounds to 1.
    const ONE: f32 = 3.92;
    let y = f64::from(x);
    // NaN passes both.
    let y = if y > END { END } else { y };
    let y = if y < -END { -END } else { y };
    let z = y * y;
    // erf(x) / x, as a quotient (of Eigen and XLA).
    let above = [
        1.128_379_143_519_084,
        0.185_208_322_399_761_45,
        0.050_955_695_062_380_86,
        0.003_408_291_010_710_951,
        0.000_229_050_658_613_506_46,
    ];
    let below = [
        1.0,
        0.497_469_251_100_675_4,
        0.110_985_051_782_853_62,
        0.014_070_470_171_167_667,
        0.001_017_962_527_891_448_5,
        2.354_796_647_131_318_5e-5,
        -1.179_160_295_436_169_7e-7,
    ];
    let near = (y * poly_f64(z, above) / poly_f64(z, below)) as f32;
    if x.abs() < ONE || x.is_nan() { near } else { 1.0_f32.copysign(x) }
}

/// `exp(x)` for x in [-110, 0], NaN of NaN; relative error 2e-9.
#[inline(always)]
fn exp_below_zero(x: f64) -> f64 {
    let shifted = x * std::f64::consts::LOG2_E + ROUND_F64;
    let r = x - (shifted - ROUND_F64) * std::f64::consts::LN_2;
    let p = [
        1.0,
        1.000_000_037_738_871_4,
        0.500_000_004_714_605_7,
        0.166_664_154_140_411_77,
        0.041_666_352_771_112_21,
        0.008_375_134_774_624_326,
        0.001_394_111_889_583_7,
    ];
    let n = shifted.to_bits().wrapping_sub(ROUND_F64.to_bits());
    poly_f64(r, p) * f64::from_bits(n.wrapping_add(1023) << 52)
}

/// `1 - erf(x)`; at most 0.6 ulp off, subnormal results included.
#[inline(always)]
pub(super) fn erfc(x: f32) -> f32 {
    /// From here on it rounds to 0.
    const END: f64 = 10.1;
    /// Where the polynomial's argument is 0.
    const MIDDLE: f64 = 2.0;
    let a = f64::from(x.abs());
    // NaN passes.
    let a = if a > END { END } else { a };
    // erfc(a) exp(a^2) (1 + 2 a)
    let p = [
        1.276_978_382_359_660_8,
        -0.092_763_816_080_983_16,
        -0.166_030_490_444_319_64,
        0.164_050_915_940_973_5,
        -0.054_218_337_387_046_386,
        -0.008_030_049_810_149_792,
        0.008_712_118_377_847_113,
        0.001_251_227_960_131_922_7,
        -0.001_428_294_687_883_163,
        -0.000_401_850_422_327_265_97,
        0.000_175_997_834_506_622_28,
        8.294_985_301_708_302e-5,
    ];
    // One division for the polynomial's argument and for what it is divided by.
    let (sum, scale) = (a + MIDDLE, 1.0 + 2.0 * a);
    let inverse = 1.0 / (sum * scale);
    let q = (a - MIDDLE) * (scale * inverse);
    let y = poly_f64(q, p) * (sum * inverse) * exp_below_zero(-(a * a));
    (if x < 0.0 { 2.0 - y } else { y }) as f32
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
