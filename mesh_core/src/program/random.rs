//! Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2,
//! 3; 2011), and what is made of its bits. One definition for everybody who draws, since bits have to be
//! the same.

use super::Generator;
pub(crate) use super::normal::BATCH;
use super::normal::{LANES, inverse_normal, inverse_normals};
use crate::names::DType;
use half::bf16;

/// Probability that a standard normal variable lies below -2.
pub(super) const BELOW_MINUS_2: f64 = 0.022_750_131_948_179_21;

/// What the key's words grow by from round to round: golden ratio and sqrt(3) - 1.
pub(super) const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
/// What the counter's words 0 and 2 are multiplied with.
pub(super) const MULTIPLIERS: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What SplitMix64 adds.
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// By how far the finalizer of SplitMix64 shifts, and what it multiplies with.
pub(super) const MIX: [(u64, u64); 2] = [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)];

/// Ten rounds of the bijection that `key` chooses, applied to `counter`. A word is the low half of its number,
/// and what stands above it means nothing: so a product is its own low word, and is made once.
#[inline(always)]
fn philox4x32(mut counter: [u64; 4], mut key: [u32; 2]) -> [u64; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let a = (counter[0] & WORD) * MULTIPLIERS[0];
        let b = (counter[2] & WORD) * MULTIPLIERS[1];
        counter = [
            (b >> 32) ^ counter[1] ^ u64::from(key[0]),
            b,
            (a >> 32) ^ counter[3] ^ u64::from(key[1]),
            a,
        ];
    }
    counter
}

/// The low word of a number.
const WORD: u64 = 0xffff_ffff;

/// The key of a generator: `mix(seed + mix(key))` with the finalizer of SplitMix64.
pub(crate) fn key(seed: u64, key: u64) -> u64 {
    mix(seed.wrapping_add(mix(key)))
}

/// The key of a generator with one more salt: `mix(key + mix(salt))`; salts are extended by zeros.
pub(crate) fn salted(key: u64, salt: i32) -> u64 {
    mix(key.wrapping_add(mix(u64::from(salt as u32))))
}

/// The two words of a key, the low one first.
pub(crate) fn words(key: u64) -> [u32; 2] {
    [key as u32, (key >> 32) as u32]
}

/// The finalizer of SplitMix64.
pub(super) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = MIX.iter().fold(x, |x, (shift, factor)| (x ^ (x >> shift)).wrapping_mul(*factor));
    x ^ (x >> 31)
}

/// 64 random bits for the element at a global position; the position is the counter's low half, and
/// the first two words of the block are used, the first as the upper half.
#[inline(always)]
pub(crate) fn draw(key: [u32; 2], position: u64) -> u64 {
    of_words(key, position, position >> 32)
}

/// [`draw`] for the position with these low and high words.
#[inline(always)]
fn of_words(key: [u32; 2], low: u64, high: u64) -> u64 {
    let block = philox4x32([low, high, 0, 0], key);
    block[0] << 32 | block[1] & WORD
}

/// What is made of a position.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Draw {
    /// The position itself.
    Position,
    /// Uniform in `[low, high)`.
    Uniform { low: f64, high: f64 },
    /// Normal.
    Normal { mean: f64, stddev: f64 },
    /// Normal, cut at two standard deviations.
    Truncated { mean: f64, stddev: f64 },
}

/// An element type that numbers are rounded to.
pub(crate) trait Rounded: Copy {
    /// Bits of a draw that are used, so that a uniform draw below 1 stays below 1.
    const BITS: u32;
    /// Zero.
    const ZERO: Self;
    fn round(x: f64) -> Self;
    /// A whole number, rounded to the nearest or kept within bounds.
    fn position(x: i64) -> Self;
    fn value(self) -> f64;
    fn below(self) -> Self;
}

macro_rules! rounded {
    ($($t:ty, $zero:expr, $bits:literal, |$x:ident| $round:expr, |$n:ident| $position:expr,
        |$y:ident| $value:expr, $below:expr;)*) => {$(
        impl Rounded for $t {
            const BITS: u32 = $bits;
            const ZERO: Self = $zero;
            #[inline(always)]
            fn round($x: f64) -> Self { $round }
            #[inline(always)]
            fn position($n: i64) -> Self { $position }
            #[inline(always)]
            fn value(self) -> f64 { let $y = self; $value }
            #[inline(always)]
            fn below(self) -> Self { let $y = self; $below }
        }
    )*};
}
rounded! {
    f32, 0.0, 24, |x| x as f32, |n| n as f32, |y| f64::from(y), y.next_down();
    f64, 0.0, 53, |x| x, |n| n as f64, |y| y, y.next_down();
    i32, 0, 53, |x| to_i32(x.floor()), |n| n.clamp(i32::MIN.into(), i32::MAX.into()) as i32, |y| f64::from(y),
        y.wrapping_sub(1);
    bf16, bf16::ZERO, 24, |x| bf16::from_f64(x), |n| bf16::from_f64(n as f64), |y| f64::from(y), next_down(y);
}

fn next_down(x: bf16) -> bf16 {
    match x.to_bits() {
        0 | 0x8000 => bf16::from_bits(0x8001),
        bits if bits & 0x8000 == 0 => bf16::from_bits(bits - 1),
        bits => bf16::from_bits(bits + 1),
    }
}

/// The middle of one of 2^52 intervals of equal length: never 0, never 1, symmetric, exact.
#[inline(always)]
fn probability(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * (1.0 / (1_u64 << 52) as f64)
}

impl Draw {
    /// How a generator makes its numbers; fills and tables have theirs.
    pub(crate) fn of(generator: &Generator) -> Self {
        match *generator {
            Generator::Uniform { low, high, .. } => Self::Uniform { low, high },
            Generator::Normal { mean, stddev, .. } => Self::Normal { mean, stddev },
            Generator::TruncatedNormal { mean, stddev, .. } => Self::Truncated { mean, stddev },
            Generator::Fill(_) | Generator::Iota(_) | Generator::Table(_) => Self::Position,
        }
    }

    /// What is made of the random bits of a position, as f64.
    pub(super) fn number(self, dtype: DType, position: isize, bits: u64) -> f64 {
        match dtype {
            DType::F32 => self.make::<f32>(position, bits).into(),
            DType::BF16 => self.make::<bf16>(position, bits).into(),
            DType::I32 => self.make::<i32>(position, bits).into(),
            DType::F64 | DType::Bool => self.make(position, bits),
        }
    }

    fn make<T: Rounded>(self, position: isize, bits: u64) -> T {
        match self {
            Self::Position => T::position(position as i64),
            Self::Uniform { low, high } => uniform(low, high, bits),
            Self::Normal { mean, stddev } => {
                T::round(mean + stddev * inverse_normal(probability(bits)))
            }
            Self::Truncated { mean, stddev } => {
                T::round(mean + stddev * inverse_normal(inside(bits)).clamp(-2.0, 2.0))
            }
        }
    }

    /// What is made of positions that are `step` apart. To be compiled for the machine's vectors.
    #[inline(always)]
    pub(crate) fn fill<T: Rounded>(self, key: [u32; 2], first: isize, step: isize, out: &mut [T]) {
        if let Self::Position = self {
            for (i, out) in out.iter_mut().enumerate() {
                *out = T::position(first as i64 + i as i64 * step as i64);
            }
            return;
        }
        let (mut bits, mut numbers) = ([0; BATCH], [0.0; BATCH]);
        let mut position = first as u64;
        for out in out.chunks_mut(BATCH) {
            // Two vectors at once, to the end: a few more than are asked for take less than one by one.
            let count = out.len().next_multiple_of(2 * LANES);
            let (bits, numbers) = (&mut bits[..count], &mut numbers[..count]);
            draws(key, position, step as u64, bits);
            position = position.wrapping_add((step as u64).wrapping_mul(BATCH as u64));
            match self {
                Self::Position => {}
                Self::Uniform { low, high } => {
                    for (out, bits) in out.iter_mut().zip(bits) {
                        *out = uniform(low, high, *bits);
                    }
                }
                Self::Normal { mean, stddev } => {
                    for (number, bits) in numbers.iter_mut().zip(bits) {
                        *number = probability(*bits);
                    }
                    inverse_normals(numbers);
                    for (out, x) in out.iter_mut().zip(numbers) {
                        *out = T::round(mean + stddev * *x);
                    }
                }
                Self::Truncated { mean, stddev } => {
                    for (number, bits) in numbers.iter_mut().zip(bits) {
                        *number = inside(*bits);
                    }
                    inverse_normals(numbers);
                    for (out, x) in out.iter_mut().zip(numbers) {
                        *out = T::round(mean + stddev * x.clamp(-2.0, 2.0));
                    }
                }
            }
        }
    }
}

/// The bits of positions that are `step` apart. Where all have one high word, what the second round makes of it is made
/// once.
#[inline(always)]
fn draws(key: [u32; 2], first: u64, step: u64, bits: &mut [u64]) {
    let last = first.wrapping_add(step.wrapping_mul(bits.len() as u64 - 1));
    let high = first >> 32;
    if high == last >> 32 {
        by_twos(first, step, bits, |position| of_words(key, position, high));
    } else {
        by_twos(first, step, bits, |position| draw(key, position));
    }
}

/// Each round waits for the one before: so two positions at once, half of all apart.
#[inline(always)]
fn by_twos(first: u64, step: u64, bits: &mut [u64], draw: impl Fn(u64) -> u64) {
    let half = bits.len() / 2;
    let apart = step.wrapping_mul(half as u64);
    let (low, high) = bits.split_at_mut(half);
    let mut position = first;
    for (low, high) in low.iter_mut().zip(high) {
        (*low, *high) = (draw(position), draw(position.wrapping_add(apart)));
        position = position.wrapping_add(step);
    }
}

/// A number in `[low, high)`.
#[inline(always)]
fn uniform<T: Rounded>(low: f64, high: f64, bits: u64) -> T {
    let unit = (bits >> (64 - T::BITS)) as f64 * (1.0 / (1_u64 << T::BITS) as f64);
    let x = T::round(low + unit * (high - low));
    if x.value() >= high && high > low { x.below() } else { x }
}

/// The probability at which a normal number is cut at two deviations.
#[inline(always)]
fn inside(bits: u64) -> f64 {
    BELOW_MINUS_2 + probability(bits) * (1.0 - 2.0 * BELOW_MINUS_2)
}

/// `x as i32` of a whole number, by operations that all vectors have.
#[inline(always)]
fn to_i32(x: f64) -> i32 {
    // Beside it, the last bits of a number are those of a whole one.
    const LARGE: f64 = 1.5 * (1_u64 << 52) as f64;
    let x = if x.is_nan() { 0.0 } else { x.clamp(i32::MIN.into(), i32::MAX.into()) };
    (x + LARGE).to_bits() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of Random123 (`kat_vectors`, philox4x32 with 10 rounds).
    #[test]
    fn known_answers() {
        let philox4x32 = |counter: [u32; 4], key| {
            super::philox4x32(counter.map(u64::from), key).map(|word| word as u32)
        };
        let ones = u32::MAX;
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([ones; 4], [ones; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32(pi, [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn seed_and_key_are_not_interchangeable() {
        assert_ne!(key(1, 2), key(2, 1));
        assert_ne!(key(0, 0), 0);
    }

    #[test]
    fn salts_count_one_by_one_and_in_order() {
        let key = key(1, 2);
        let salted = |salts: &[i32]| salts.iter().copied().fold(key, salted);
        let all = [&[][..], &[0], &[1], &[-1], &[0, 0], &[0, 1], &[1, 0]].map(salted);
        let mut distinct = all.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len());
    }

    /// As many as are asked for, each that of its position.
    #[test]
    fn many_are_those_of_their_positions() {
        fn check<T: Rounded>(draw: Draw, first: isize, step: isize) {
            let key = words(key(1, 2));
            for count in [0, 1, 7, 8, 17, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 5] {
                let mut made = vec![T::ZERO; count];
                draw.fill(key, first, step, &mut made);
                for (i, made) in made.into_iter().enumerate() {
                    let at = first.wrapping_add(step.wrapping_mul(i as isize));
                    let want: T = draw.make(at, super::draw(key, at as u64));
                    assert_eq!(made.value().to_bits(), want.value().to_bits(), "{draw:?} at {at}");
                }
            }
        }
        for draw in [
            Draw::Position,
            Draw::Uniform { low: -3.0, high: 20.0 },
            Draw::Normal { mean: 1.0, stddev: 2.0 },
            Draw::Truncated { mean: 1.0, stddev: 2.0 },
        ] {
            // Across the end of the low word, too.
            for (first, step) in [(0, 1), (5, 3), (u32::MAX as isize - 40, 1), (900, -2)] {
                check::<f32>(draw, first, step);
                check::<f64>(draw, first, step);
                check::<bf16>(draw, first, step);
                check::<i32>(draw, first, step);
            }
        }
    }

    #[test]
    fn whole_numbers_are_cast_as_by_rust() {
        let bound = f64::from(i32::MAX);
        for x in [0.0, -0.0, 1.0, -1.0, 65_536.0, bound, bound - 1.0, -bound, -bound - 1.0] {
            for x in [x, x + bound, x - bound, x * 1e10, x * f64::INFINITY] {
                assert_eq!(to_i32(x), x as i32, "{x}");
            }
        }
    }
}
