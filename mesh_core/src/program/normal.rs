//! The inverse of the normal distribution function (Wichura, AS 241, routine PPND16; 1988).

/// Numbers that are made together, in the first cache.
pub(crate) const BATCH: usize = 512;
/// Numbers that a long vector holds.
pub(super) const LANES: usize = 8;

/// A quotient of polynomials, the constant coefficients first.
pub(super) struct Rational {
    pub(super) above: [f64; 8],
    pub(super) below: [f64; 8],
}

/// Within 0.425 of one half, of `0.180625 - q^2`.
pub(super) const CENTRE: Rational = Rational {
    above: [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    below: [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
};

/// Further out, of `sqrt(-ln(tail)) - 1.6`.
pub(super) const MIDDLE: Rational = Rational {
    above: [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    below: [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
};

/// Beyond `p = exp(-25)`, about 1.4e-11, of `sqrt(-ln(tail)) - 5`.
pub(super) const FAR: Rational = Rational {
    above: [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    below: [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_7e-15,
    ],
};

/// The natural logarithm of `2^k (1 + f)`, of the roots of one half and two on either side of `1 + f`: with
/// `s = f / (2 + f)` and `z = s^2`, `k ln 2 + f - f^2 / 2 + s (f^2 / 2 + z (L[0] + L[1] z + ...))` (FreeBSD's msun,
/// `e_log.c`, whose coefficients these are; below 1 ulp). Spelled here, so that no library's last bit shows.
pub(super) struct Logarithm;

impl Logarithm {
    /// The bits of the root of one half, where `1 + f` begins.
    pub(super) const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    /// What is added to a number's bits so that its exponent stands above them.
    pub(super) const APART: u64 = 0x3ff0_0000_0000_0000 - Self::ROOT;
    /// The bits of a number without its exponent.
    pub(super) const MANTISSA: u64 = (1 << 52) - 1;
    /// ln 2: 32 bits, so that whole multiples are exact, and the rest.
    pub(super) const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    pub(super) const L: [f64; 7] = [
        6.666_666_666_666_735e-1,
        3.999_999_999_940_942e-1,
        2.857_142_874_366_239e-1,
        2.222_219_843_214_978_4e-1,
        1.818_357_216_161_805e-1,
        1.531_383_769_920_937_3e-1,
        1.479_819_860_511_658_6e-1,
    ];
}

/// Distance from 1/2 up to which [`CENTRE`] holds.
const CENTRAL: f64 = 0.425;
/// The root from which [`FAR`] holds.
const FAR_ROOT: f64 = 5.0;

/// The number below which a standard normal variable lies with probability `p`, for `0 < p < 1`;
/// relative error about 1e-16, for the `p` that is given.
pub(super) fn inverse_normal(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= CENTRAL { central(q) } else { outer(log(p).sqrt()).copysign(q) }
}

/// [`inverse_normal`] of at most [`BATCH`], with the same bits. Vectors do nearly all work: what lies outside of
/// the central region, 15 %, is packed before it is computed.
#[inline(always)]
pub(super) fn inverse_normals(p: &mut [f64]) {
    let (mut places, mut outer) = ([0; BATCH], [0.0; BATCH]);
    let count = outside(p, &mut places, &mut outer);
    let places = &places[..count];
    let mut is_far = false;
    // Whole vectors: behind the last number stand halves.
    let whole = count.next_multiple_of(LANES);
    outer[count..whole].fill(0.5);
    let outer = &mut outer[..whole];
    // Logarithms, with the signs of the numbers.
    for x in outer.iter_mut() {
        let log = log(*x);
        is_far |= log > FAR_ROOT * FAR_ROOT;
        *x = log.copysign(*x - 0.5);
    }
    if is_far {
        for x in outer.iter_mut() {
            *x = self::outer(x.abs().sqrt()).copysign(*x);
        }
    } else {
        for x in outer.iter_mut() {
            *x = middle(x.abs().sqrt()).copysign(*x);
        }
    }
    for p in p.iter_mut() {
        *p = central(*p - 0.5);
    }
    for (&i, outer) in places.iter().zip(outer) {
        p[usize::from(i)] = *outer;
    }
}

/// Packs the numbers outside of the central region, with the places where they stand, and returns how many they are.
#[inline(always)]
fn outside(p: &[f64], places: &mut [u16; BATCH], packed: &mut [f64; BATCH]) -> usize {
    let mut count = 0;
    for (word, p) in p.chunks(64).enumerate() {
        let is = |p: f64| u64::from((p - 0.5).abs() > CENTRAL);
        let mut left = p.iter().enumerate().fold(0, |all, (i, p)| all | is(*p) << i);
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            places[count] = (word * 64 + i) as u16;
            packed[count] = p[i];
            left &= left - 1;
            count += 1;
        }
    }
    count
}

/// For a distance of at most [`CENTRAL`] from 1/2.
#[inline(always)]
fn central(q: f64) -> f64 {
    CENTRE.times(q, 0.180625 - q * q)
}

/// The logarithm of the greater of `1 / p` and `1 / (1 - p)`.
#[inline(always)]
fn log(p: f64) -> f64 {
    let tail = if p < 0.5 { p } else { 1.0 - p };
    -ln(tail)
}

/// As [`Logarithm`], of a number that is positive and no subnormal one.
#[inline(always)]
fn ln(x: f64) -> f64 {
    let bits = x.to_bits().wrapping_add(Logarithm::APART);
    let k = (bits >> 52) as f64 - 1023.0;
    let f = f64::from_bits((bits & Logarithm::MANTISSA) + Logarithm::ROOT) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let [a, b, c, d, e, g, h] = Logarithm::L;
    let even = w * (b + w * (d + w * g));
    let odd = z * (a + w * (c + w * (e + w * h)));
    let half = 0.5 * f * f;
    let [high, low] = Logarithm::LN_2;
    s * (half + (odd + even)) + k * low - half + f + k * high
}

/// The number's size for a root.
#[inline(always)]
fn outer(root: f64) -> f64 {
    if root > FAR_ROOT { FAR.times(1.0, root - 5.0) } else { middle(root) }
}

/// For a root of at most [`FAR_ROOT`].
#[inline(always)]
fn middle(root: f64) -> f64 {
    MIDDLE.times(1.0, root - 1.6)
}

impl Rational {
    /// `factor * above(x) / below(x)`, by Horner's rule.
    #[inline(always)]
    fn times(&self, factor: f64, x: f64) -> f64 {
        let of = |p: &[f64; 8]| {
            let [a, b, c, d, e, f, g, h] = *p;
            ((((((h * x + g) * x + f) * x + e) * x + d) * x + c) * x + b) * x + a
        };
        factor * of(&self.above) / of(&self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles to 16 digits, computed with mpmath at 40 digits.
    #[test]
    fn known_quantiles() {
        for (p, z) in [
            (0.5, 0.0),
            (0.6, 0.253_347_103_135_799_7),
            (0.9, 1.281_551_565_544_600_5),
            (0.95, 1.644_853_626_951_472_2),
            (0.975, 1.959_963_984_540_054),
            (0.023, -1.995_393_310_167_824_8),
            (0.001, -3.090_232_306_167_813_5),
            (1e-6, -4.753_424_308_822_899),
            (1e-12, -7.034_483_825_301_132),
            (f64::EPSILON / 2.0, -8.209_536_151_601_387),
        ] {
            assert!((inverse_normal(p) - z).abs() < 1e-14, "{p}: {} {z}", inverse_normal(p));
        }
        assert_eq!(inverse_normal(1.0 - f64::EPSILON / 2.0), -inverse_normal(f64::EPSILON / 2.0));
    }

    /// Every binade that a probability may lie in, where `1 + f` is close to its bounds and to one, and between.
    #[test]
    fn logarithms_are_within_an_ulp() {
        let near = |x: f64| [x.next_down(), x, x.next_up()];
        let binades = (1..54).map(|k| 0.5_f64.powi(k));
        let within = (0..64).map(|i| 1.0 + f64::from(i) / 64.0).chain(near(2.0_f64.sqrt()));
        let all = within.flat_map(|m| binades.clone().flat_map(move |b| near(m * b)));
        for x in all.filter(|&x| x < 1.0) {
            let (made, want) = (ln(x), x.ln());
            let apart = made.to_bits().abs_diff(want.to_bits());
            assert!(apart <= 1, "{x}: {made} {want}");
        }
    }

    /// Few and many, of all regions or of one, at the places where regions meet.
    #[test]
    fn many_have_the_bits_of_each() {
        let meet = [0.075, 0.075_f64.next_up(), 0.925, (-25_f64).exp(), (-25_f64).exp().next_up()];
        let spread = (0..BATCH).map(|i| (i as f64 + 0.5) / BATCH as f64);
        let far = (1..60).map(|i| 0.7_f64.powi(i * 2));
        let all: Vec<_> =
            meet.into_iter().chain(spread).chain(far.flat_map(|p| [p, 1.0 - p])).collect();
        let all: Vec<_> = all.into_iter().filter(|&p| p > 0.0 && p < 1.0).collect();
        for count in (0..20).chain([63, 64, 65, BATCH - 1, BATCH]) {
            for of in all.chunks(count.max(1)) {
                let of = &of[..count.min(of.len())];
                let mut made = of.to_vec();
                inverse_normals(&mut made);
                let same = |(made, p): (&f64, &f64)| made.to_bits() == inverse_normal(*p).to_bits();
                assert!(made.iter().zip(of).all(same), "{of:?}: {made:?}");
            }
        }
    }
}
