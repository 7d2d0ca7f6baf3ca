//! Functions that are integrals: `lgamma`, `digamma`, and `erfinv`, the inverse of `erf`.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `erfinv(x)` | `sqrt(pi) / 2 exp(y^2) dy` | infinite at -1 and 1, NaN beyond |
//!
//! `lgamma` and `digamma` are compositions of what they are from 1/2 on, and below that by Euler's reflection
//! formula (DLMF 5.5.3, 5.5.4). From 1/2 on, Stirling's series eight places further on (DLMF 5.11.1, 5.11.2)
//! is carried back by the recurrence (DLMF 5.5.1, 5.5.2). Both are good to some ulps of the largest number on
//! the way, so near their zeros they lose relative accuracy: in f32 they are off by less than 1e-5 there. At
//! minus infinity `lgamma` is infinite and `digamma` NaN, as at whole numbers below 0. None is linear.

use super::unary::unary;
use super::{Elementwise, abs, cos, equal, exp, less, log, map, round, select, sin, square};
use crate::room::*;
use mesh_core::program::Expr;
use std::f64::consts::{FRAC_2_SQRT_PI, PI};

unary! {
    /// The number whose [`erf`](super::erf) is `x`.
    Erfinv erfinv float;
    value |x| x.erf_inv();
    gradient |_, y, dy| Some(dy * (exp(square(y)) * (1.0 / FRAC_2_SQRT_PI)));
}

/// A polynomial, its highest power first.
fn poly(x: &Expr, coefficients: &[f64]) -> Expr {
    let first = Expr::number(coefficients[0]);
    coefficients[1..].iter().fold(first, |sum, &next| sum * x.clone() + next)
}

/// Bernoulli's numbers B2, B4, ...
const BERNOULLI: [f64; 7] =
    [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0];

/// The coefficients of a series, the last first, each from a number of Bernoulli's and half of its index.
fn backwards(term: impl Fn(f64, u32) -> f64) -> [f64; 7] {
    let mut series = [0.0; 7];
    for (k, (slot, number)) in (1..).zip(series.iter_mut().rev().zip(BERNOULLI)) {
        *slot = term(number, k);
    }
    series
}

/// So many places further on, the series is exact to rounding in f64.
const PLACES: u32 = 8;

/// `lgamma` from 1/2 on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Stirling;

impl Elementwise for Stirling {
    const NAME: &'static str = "stirling";
    const ARITY: usize = 1;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let x = x[0].clone();
        let is_near = x.clone().less(f64::from(PLACES));
        let z = is_near.clone().select(x.clone() + f64::from(PLACES), x.clone());
        let inverse = 1.0 / z.clone();
        let square = inverse.clone() * inverse.clone();
        let terms = backwards(|b, k| b / f64::from(2 * k * (2 * k - 1)));
        let series = inverse * poly(&square, &terms);
        let constant = 0.5 * (2.0 * PI).ln() - 0.5;
        let far = (z.clone() - 0.5) * (z.log() - 1.0) + (series + constant);
        let near = x.min(f64::from(PLACES));
        let steps = (1..PLACES).map(|k| near.clone() + f64::from(k));
        let product = steps.fold(near.clone(), |product, next| product * next);
        far - is_near.select(product.log(), 0.0)
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(dy * map(Polygamma { order: 0 }, &[x[0]]))])
    }
}

/// The slope of `lgamma` from 1/2 on, differentiated `order` times.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Polygamma {
    order: u32,
}

fn factorial(n: u32) -> f64 {
    (1..=n).map(f64::from).product()
}

fn power(x: &Expr, n: u32) -> Expr {
    (1..n).fold(x.clone(), |product, _| product * x.clone())
}

impl Elementwise for Polygamma {
    const NAME: &'static str = "polygamma";
    const ARITY: usize = 1;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (n, x) = (self.order, x[0].clone());
        let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
        let z = x.clone() + f64::from(PLACES);
        let inverse = 1.0 / z.clone();
        let square = inverse.clone() * inverse.clone();
        let series = backwards(|b, k| b * factorial(2 * k + n - 1) / factorial(2 * k));
        let series = square.clone() * poly(&square, &series) + 0.5 * factorial(n) * inverse.clone();
        let far = match n {
            0 => z.log() - series,
            _ => sign * power(&inverse, n) * (series + factorial(n - 1)),
        };
        let steps = (0..PLACES).map(|k| power(&(1.0 / (x.clone() + f64::from(k))), n + 1));
        steps.fold(far, |sum, next| sum + sign * factorial(n) * next)
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(dy * map(Self { order: self.order + 1 }, &[x[0]]))])
    }
}

/// Whether `x` is below 1/2; the number from 1/2 on that Euler's formula reflects it to, else `x`; and what
/// part of a period `x` is beyond a whole number, from -1/2 to 1/2, where it is below.
#[track_caller]
fn reflected(x: Tensor<'_>) -> (Tensor<'_>, Tensor<'_>, Tensor<'_>) {
    let is_below = less(x, 0.5);
    (is_below, select(is_below, 1.0 - x, x), select(is_below, x - round(x), 0.25))
}

/// The logarithm of the absolute value of the gamma function; floats. `exp(lgamma(n + 1))` is n!.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::lgamma(x).shape(), x.shape());
/// ```
#[track_caller]
pub fn lgamma(x: Tensor<'_>) -> Tensor<'_> {
    let (is_below, there, part) = reflected(x);
    let above = map(Stirling, &[there]);
    let below =
        select(equal(x, f64::NEG_INFINITY), f64::INFINITY, log(PI / abs(sin(PI * part))) - above);
    select(is_below, below, above)
}

/// The slope of [`lgamma`]; floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::digamma(x).shape(), x.shape());
/// ```
#[track_caller]
pub fn digamma(x: Tensor<'_>) -> Tensor<'_> {
    let (is_below, there, part) = reflected(x);
    let above = map(Polygamma { order: 0 }, &[there]);
    let angle = PI * part;
    // Minus infinity at 0; further poles lie between both infinities.
    let pole = select(less(x, 0.0), f64::NAN, x.fill_like(f64::NEG_INFINITY));
    let below = select(equal(part, 0.0), pole, above - PI * (cos(angle) / sin(angle)));
    select(is_below, below, above)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::random::proof::below;
    use crate::testing::proof::*;
    use std::f64::consts::SQRT_2;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Erfinv>>(|_, x, _| found(x[0])),
            &Elements::<Map<Stirling>>(|_, x, _| log_gamma(x[0])),
            &Elements::<Map<Polygamma>>(|Map(Polygamma { order }), x, _| slope(*order, x[0])),
        ],
        cases: || {
            let positive = Fill::Between(0.25, 4.0);
            let either = Fill::Values(vec![-1.25, 0.375, 6.5, -0.75, 2.25, 12.0]);
            let gamma = |name: &str, dtype, fill| {
                unary(name, |x| lgamma(x), dtype, fill)
                    .composed()
                    .computes(|x, ty| Dense { ty: ty.clone(), ..x[0].clone().map(everywhere) })
            };
            let digamma = |name: &str, dtype, fill| {
                unary(name, |x| digamma(x), dtype, fill).composed().computes(|x, ty| Dense {
                    ty: ty.clone(),
                    ..x[0].clone().map(slope_everywhere)
                })
            };
            vec![
                unary("erfinv", |x| erfinv(x), F32, Fill::Between(-0.75, 0.75)),
                unary("erfinv: f64", |x| erfinv(x), F64, Fill::Between(-0.96, 0.96)),
                gamma("lgamma", F32, positive.clone()),
                gamma("lgamma: f64, of either sign", F64, either.clone()),
                digamma("digamma", F32, positive),
                digamma("digamma: f64, of either sign", F64, either),
            ]
        },
    };

    /// By halving an interval.
    fn found(x: f64) -> f64 {
        let (mut low, mut high) = (-8.0, 8.0);
        for _ in 0..70 {
            let middle = 0.5 * (low + high);
            // The smaller tail has all its digits.
            let is_right = match middle < 0.0 {
                true => 2.0 * below(middle * SQRT_2) > 1.0 + x,
                false => 2.0 * below(-middle * SQRT_2) < 1.0 - x,
            };
            if is_right { high = middle } else { low = middle }
        }
        0.5 * (low + high)
    }

    /// From so far on, a few terms of the series are exact.
    const FAR: u32 = 60;

    /// By the recurrence, one logarithm for each step, and the first terms of Stirling's series.
    fn log_gamma(x: f64) -> f64 {
        let z = x + f64::from(FAR);
        let far = (z - 0.5) * z.ln() - z + 0.5 * (2.0 * PI).ln() + 1.0 / (12.0 * z)
            - 1.0 / (360.0 * z.powi(3))
            + 1.0 / (1260.0 * z.powi(5));
        far - (0..FAR).map(|k| (x + f64::from(k)).ln()).sum::<f64>()
    }

    /// The sum that defines it, and Euler's and Maclaurin's formula for its end.
    fn slope(order: u32, x: f64) -> f64 {
        let (n, z) = (order as i32, x + f64::from(FAR));
        let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
        let near: f64 = (0..FAR).map(|k| (x + f64::from(k)).powi(-n - 1)).sum();
        if n == 0 {
            let far = z.ln() - 0.5 / z - 1.0 / (12.0 * z * z) + 1.0 / (120.0 * z.powi(4));
            return far - 1.0 / (252.0 * z.powi(6)) - near;
        }
        let m = f64::from(n + 1);
        let far = z.powi(-n) / f64::from(n) + 0.5 * z.powi(-n - 1) + m / 12.0 * z.powi(-n - 2)
            - m * (m + 1.0) * (m + 2.0) / 720.0 * z.powi(-n - 4)
            + m * (m + 1.0) * (m + 2.0) * (m + 3.0) * (m + 4.0) / 30240.0 * z.powi(-n - 6);
        sign * factorial(order) * (near + far)
    }

    /// By the recurrence from 1/2 on.
    fn everywhere(x: f64) -> f64 {
        if x < 0.5 { everywhere(x + 1.0) - x.abs().ln() } else { log_gamma(x) }
    }

    fn slope_everywhere(x: f64) -> f64 {
        if x < 0.5 { slope_everywhere(x + 1.0) - 1.0 / x } else { slope(0, x) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{floats, worst};

    #[test]
    fn erfinv_keeps_its_digits() {
        // Where erf has digits left in f64.
        let ys: Vec<f64> = (0..3000).map(|i| 1e-4 + 3.5e-4 * f64::from(i)).collect();
        let xs: Vec<f32> = ys.into_iter().map(|y| y.min(0.999_999_9) as f32).collect();
        let (off, at) = worst(&[xs], |x| super::super::erf(erfinv(x[0])), |x| x[0]).unwrap();
        assert!(off <= 12.0, "{off} ulp off at {at:?}");
    }

    #[test]
    fn lgamma_at_its_ends_and_far_from_them() {
        let whole = (1..30).map(|n| n as f32);
        let exact = |x: &[f64]| (1..x[0] as u32).map(|k| f64::from(k).ln()).sum::<f64>();
        let g = worst(&[whole.skip(2).collect()], |x| lgamma(x[0]), exact).unwrap();
        // Near its zeros at 1 and 2, what is subtracted is larger than what is left.
        assert!(g.0 <= 16.0, "{} ulp off at {:?}", g.0, g.1);
        let ends = vec![0.0, -1.0, -7.0, f32::INFINITY, 3e38];
        assert_eq!(worst(&[ends], |x| lgamma(x[0]), |_| f64::INFINITY).unwrap().0, 0.0);
        let far: Vec<_> = floats().filter(|x| (1e8..1e36).contains(x)).collect();
        let stirling = |x: &[f64]| (x[0] - 0.5) * x[0].ln() - x[0];
        let (off, at) = worst(&[far], |x| lgamma(x[0]), stirling).unwrap();
        assert!(off <= 8.0, "{off} ulp off at {at:?}");
    }
}
