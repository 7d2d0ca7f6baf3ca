//! Logarithms to bases e, two and ten.

use super::poly;
use std::f32::consts::{LN_2, LOG2_E, LOG10_E};
use std::f64::consts;
use std::hint::select_unpredictable;

/// 2^23: what one in the exponent adds to a number's bits.
const UNIT: f32 = 8_388_608.0;

/// `(log(1 + f) - f) / f^2` between the roots of 1/2 and 2.
const REST: [f32; 9] = [
    -0.5,
    0.333_333_3,
    -0.250_008_23,
    0.200_012_53,
    -0.166_232_4,
    0.142_006_8,
    -0.131_604_5,
    0.127_712_74,
    -0.076_467_01,
];

/// `log_b(1 + f) / f` less `by`, which is the logarithm of e to that base, as f32 has it.
const fn rest(by: f64) -> [f32; REST.len() + 1] {
    let mut p = [(by - by as f32 as f64) as f32; REST.len() + 1];
    let mut i = 0;
    while i < REST.len() {
        p[i + 1] = (REST[i] as f64 * by) as f32;
        i += 1;
    }
    p
}

/// The bits of 2^e less those of 1, for those of a normal number 2^e m, m in [sqrt(1/2), sqrt(2)); as an integer,
/// e times [`UNIT`].
#[inline(always)]
fn exponent(bits: u32) -> i32 {
    /// The bits above the mantissa.
    const UPPER: i32 = -1 << 23;
    /// Bits of the root of 1/2.
    const LEAST: i32 = 0x3f35_04f3;
    (bits as i32).wrapping_sub(LEAST) & UPPER
}

/// `m - 1` and e times [`UNIT`] of a normal number's bits, as [`exponent`] has them.
#[inline(always)]
fn parts(bits: u32) -> (f32, f32) {
    let upper = exponent(bits);
    (f32::from_bits(bits.wrapping_sub(upper as u32)) - 1.0, upper as f32)
}

/// `log(1 + f) + e ln 2` for `1 + f` between the roots of 1/2 and 2; e is times [`UNIT`].
#[inline(always)]
fn log_of_parts(f: f32, e: f32) -> f32 {
    e.mul_add(LN_2 / UNIT, (f * f).mul_add(poly(f, REST), f))
}

/// As [`log_of_parts`], to base two.
#[inline(always)]
fn log2_of_parts(f: f32, e: f32) -> f32 {
    let near = f.mul_add(LOG2_E, f * poly(f, const { rest(consts::LOG2_E) }));
    e.mul_add(1.0 / UNIT, near)
}

/// As [`log_of_parts`], to base ten.
#[inline(always)]
fn log10_of_parts(f: f32, e: f32) -> f32 {
    /// The logarithm of two, in two parts above 0.
    const HI: f32 = 0.301_029_98;
    const LO: f32 = 1.548_133_3e-8;
    let less = e.mul_add(LO / UNIT, f * poly(f, const { rest(consts::LOG10_E) }));
    e.mul_add(HI / UNIT, f.mul_add(LOG10_E, less))
}

/// Whether a number is above 0, finite and not subnormal.
#[inline(always)]
pub(in crate::exec::cpu) fn is_normal(x: f32) -> bool {
    const LEAST: u32 = f32::MIN_POSITIVE.to_bits();
    x.to_bits().wrapping_sub(LEAST) < f32::INFINITY.to_bits() - LEAST
}

/// Logarithms of all numbers, and with the same bits of those that are normal.
macro_rules! logarithms {
    ($($(#[$doc:meta])* $all:ident $normal:ident $of_parts:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(in crate::exec::cpu) fn $all(x: f32) -> f32 {
            let tiny = x < f32::MIN_POSITIVE;
            // Of a branch, compilers would compute all that follows for both cases.
            let (f, e) = parts(select_unpredictable(tiny, x * UNIT, x).to_bits());
            let e = select_unpredictable(tiny, e - 23.0 * UNIT, e);
            // Infinity, or NaN, comes to itself.
            let e = if x < f32::INFINITY { e } else { x };
            let end = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
            if x > 0.0 { $of_parts(f, e) } else { end }
        }

        $(#[$doc])*
        ///
        /// Of numbers that are normal ([`is_normal`]).
        #[inline(always)]
        pub(in crate::exec::cpu) fn $normal(x: f32) -> f32 {
            let (f, e) = parts(x.to_bits());
            $of_parts(f, e)
        }
    )*};
}

logarithms! {
    /// Natural logarithm; at most 1 ulp off.
    log log_normal log_of_parts;
    /// Logarithm to base two; at most 1 ulp off, exact of powers of two.
    log2 log2_normal log2_of_parts;
    /// Logarithm to base ten; at most 1 ulp off, exact of those powers of ten that f32 has.
    log10 log10_normal log10_of_parts;
}

/// Natural logarithm of `1 + x`; at most 1.5 ulp off.
#[inline(always)]
pub(in crate::exec::cpu) fn log1p(x: f32) -> f32 {
    let w = 1.0 + x;
    let upper = exponent(w.to_bits());
    let f = f32::from_bits(w.to_bits().wrapping_sub(upper as u32)) - 1.0;
    // What the sum lost when it was rounded.
    let less = x - (w - 1.0);
    let power = f32::from_bits((1.0_f32.to_bits() as i32).wrapping_sub(upper).max(0) as u32);
    let y = log_of_parts(less.mul_add(power, f), upper as f32).copysign(x);
    let y = if x < f32::INFINITY { y } else { x };
    let end = if x == -1.0 { f32::NEG_INFINITY } else { f32::NAN };
    if x > -1.0 { y } else { end }
}
