//! Hyperbolic functions and their inverses: `sinh`, `cosh`, `asinh`, `acosh`, `atanh`.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `sinh(x) = (exp(x) - exp(-x)) / 2` | `cosh(x) dy` | |
//! | `cosh(x) = (exp(x) + exp(-x)) / 2` | `sinh(x) dy` | |
//! | `asinh(x) = log(x + sqrt(x^2 + 1))` | `dy / sqrt(x^2 + 1)` | |
//! | `acosh(x) = log(x + sqrt(x^2 - 1))` | `dy / sqrt(x^2 - 1)` | NaN below 1 |
//! | `atanh(x) = log((1 + x) / (1 - x)) / 2` | `dy / (1 - x^2)` | infinite at -1 and 1, NaN beyond |
//!
//! Compositions of `exp` and `log` that neither overflow before their results do nor cancel near 0; at most
//! 6 ulp off in f32. None is linear.

use super::exponential::exp_minus_one;
use super::unary::unary;
use super::{hypot, rsqrt};
use crate::room::*;
use mesh_core::program::Expr;
use std::f64::consts::LN_2;

/// Beside the square of this, 1 is nothing in any dtype.
const LARGE: f64 = 1e9;

unary! {
    /// Hyperbolic sine.
    Sinh sinh float;
    value |x| {
        let size = x.clone().abs();
        let t = exp_minus_one(size.clone().min(1.0));
        let near = 0.5 * (t.clone() + t.clone() / (t + 1.0));
        // The root of exp: its square overflows where the result does.
        let root = (0.5 * size.clone()).exp();
        let far = 0.5 * root.clone() * root.clone() - 0.5 / root.clone() / root;
        x.sign() * size.less(1.0).select(near, far)
    };
    gradient |x, _, dy| Some(dy * cosh(x));

    /// Hyperbolic cosine.
    Cosh cosh float;
    value |x| {
        let root = (0.5 * x.abs()).exp();
        0.5 * root.clone() * root.clone() + 0.5 / root.clone() / root
    };
    gradient |x, _, dy| Some(dy * sinh(x));

    /// Inverse of the hyperbolic sine.
    Asinh asinh float;
    value |x| {
        let size = x.clone().abs();
        let a = size.clone().min(LARGE);
        let square = a.clone() * a.clone();
        let near = (a + square.clone() / (1.0 + (square + 1.0).sqrt())).log1p();
        x.sign() * size.clone().less(LARGE).select(near, size.log() + LN_2)
    };
    gradient |x, _, dy| Some(dy / hypot(x, x.scalar_like(1.0)));

    /// Inverse of the hyperbolic cosine, from 0 on.
    Acosh acosh float;
    value |x| {
        let t = x.clone().min(LARGE) - 1.0;
        let near = (t.clone() + t.clone().sqrt() * (t + 2.0).sqrt()).log1p();
        x.clone().less(LARGE).select(near, x.log() + LN_2)
    };
    gradient |x, _, dy| Some(dy * (rsqrt(x - 1.0) * rsqrt(x + 1.0)));

    /// Inverse of the hyperbolic tangent.
    Atanh atanh float;
    value |x| {
        let size = x.clone().abs();
        let near = 0.5 * (2.0 * size.clone() / (1.0 - size.clone())).log1p();
        x.sign() * size.equal(1.0).select(f64::INFINITY, near)
    };
    gradient |x, _, dy| Some(dy / ((1.0 - x) * (1.0 + x)));
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Sinh>>(|_, x, _| x[0].sinh()),
            &Elements::<Map<Cosh>>(|_, x, _| x[0].cosh()),
            &Elements::<Map<Asinh>>(|_, x, _| x[0].asinh()),
            &Elements::<Map<Acosh>>(|_, x, _| x[0].acosh()),
            &Elements::<Map<Atanh>>(|_, x, _| x[0].atanh()),
        ],
        cases: || {
            vec![
                unary("sinh", |x| sinh(x), F32, Fill::Normal),
                unary("cosh", |x| cosh(x), F32, Fill::Normal),
                unary("asinh", |x| asinh(x), F32, Fill::Normal),
                unary("acosh", |x| acosh(x), F32, Fill::Between(1.25, 4.0)),
                unary("atanh", |x| atanh(x), F32, Fill::Between(-0.75, 0.75)),
            ]
        },
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{floats, worst};

    /// Each at its own ends, too.
    #[test]
    fn hyperbolic_functions_keep_their_digits() {
        type Case = (for<'g> fn(Tensor<'g>) -> Tensor<'g>, fn(f64) -> f64);
        let cases: [Case; 5] = [
            (|x| sinh(x), f64::sinh),
            (|x| cosh(x), f64::cosh),
            (|x| asinh(x), f64::asinh),
            (|x| acosh(x), f64::acosh),
            (|x| atanh(x), f64::atanh),
        ];
        let ends = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY];
        for (i, (function, exact)) in cases.into_iter().enumerate() {
            // Beside the least of normal numbers, products lose their last bits.
            let xs = floats().filter(|x| x.abs() > 1e-36).chain(ends);
            let xs = xs.filter(|&x| !exact(f64::from(x)).is_nan()).collect();
            // The standard library's own asinh cancels for small operands in f64.
            let (off, at) = worst(&[xs], |x| function(x[0]), |x| exact(x[0])).unwrap();
            assert!(off <= 6.0, "function {i}: {off} ulp off at {at:?}");
        }
        for (function, outside) in [(cases[3].0, 0.5), (cases[3].0, -3e38), (cases[4].0, 1.5)] {
            let (off, _) = worst(&[vec![outside]], |x| function(x[0]), |_| 0.0).unwrap();
            assert!(off.is_nan(), "{outside}");
        }
    }
}
