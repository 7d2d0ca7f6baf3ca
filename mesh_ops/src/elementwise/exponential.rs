//! `exp` and `log`, the natural ones; `expm1`, `log1p` and `log1mexp`, which do not cancel near 0.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `exp(x)` | `y dy` | |
//! | `log(x)` | `dy / x` | -inf at 0, NaN below |
//! | `expm1(x) = exp(x) - 1` | `(y + 1) dy` | |
//! | `log1p(x) = log(1 + x)` | `dy / (1 + x)` | -inf at -1, NaN below |
//! | `log1mexp(x) = log(1 - exp(x))` | `exp(x) / (exp(x) - 1) dy` | -inf at 0, NaN above |
//!
//! None is linear. `expm1` and `log1mexp` are compositions, at most 5 ulp off in f32.

use super::unary::unary;
use crate::room::*;
use mesh_core::program::Expr;
use std::f64::consts::LN_2;

unary! {
    /// e to the x.
    Exp exp float;
    value |x| x.exp();
    gradient |_, y, dy| Some(dy * y);

    /// Natural logarithm.
    Log log float;
    value |x| x.log();
    gradient |x, _, dy| Some(dy / x);

    /// `exp(x) - 1`, exact near 0 too.
    #[doc(alias = "exponential_minus_one")]
    Expm1 expm1 float;
    value |x| {
        let near = exp_minus_one(x.clone().min(0.5));
        x.clone().less(0.5).select(near, x.exp() - 1.0)
    };
    gradient |_, y, dy| Some(dy * (y + 1.0));

    /// `log(1 + x)`, exact near 0 too.
    #[doc(alias = "log_plus_one")]
    Log1p log1p float;
    value |x| x.log1p();
    gradient |x, _, dy| Some(dy / (x + 1.0));

    /// `log(1 - exp(x))` for x below 0, exact near 0 and far from it: the logarithm of the probability
    /// of what does not happen, from that of what does (Mächler 2012, "Accurately computing
    /// log(1 - exp(-|a|))").
    Log1mexp log1mexp float;
    value |x| {
        let near = (-exp_minus_one(x.clone().min(0.5))).log();
        x.clone().greater(-LN_2).select(near, (-x.exp()).log1p())
    };
    gradient |x, _, dy| Some(dy * (exp(x) / expm1(x)));
}

/// `exp(x) - 1` for `x <= 1/2`, without the cancellation near 0: with `t = tanh(x / 2)` it is
/// `2 t / (1 - t)`, and `1 - t` is between 3/4 and 2.
pub(super) fn exp_minus_one(x: Expr) -> Expr {
    let t = (0.5 * x).tanh();
    2.0 * t.clone() / (1.0 - t)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Exp>>(|_, x, _| x[0].exp()),
            &Elements::<Map<Log>>(|_, x, _| x[0].ln()),
            &Elements::<Map<Expm1>>(|_, x, _| x[0].exp_m1()),
            &Elements::<Map<Log1p>>(|_, x, _| x[0].ln_1p()),
            &Elements::<Map<Log1mexp>>(|_, x, _| (-x[0].exp_m1()).ln()),
        ],
        cases: || {
            vec![
                unary("exp", |x| exp(x), F32, Fill::Normal),
                unary("log", |x| log(x), F32, Fill::Between(0.25, 4.0)),
                unary("expm1", |x| expm1(x), F32, Fill::Normal),
                unary("expm1: f64", |x| expm1(x), F64, Fill::Normal),
                unary("expm1: small", |x| expm1(x * 1e-6) * 1e6, F32, Fill::Normal),
                unary("expm1: small: f64", |x| expm1(x * 1e-6) * 1e6, F64, Fill::Normal),
                unary("log1p", |x| log1p(x), F32, Fill::Between(-0.75, 4.0)),
                unary("log1p: f64", |x| log1p(x), F64, Fill::Between(-0.75, 4.0)),
                unary("log1mexp", |x| log1mexp(x), F32, Fill::Between(-4.0, -0.25)),
                unary("log1mexp: f64", |x| log1mexp(x), F64, Fill::Between(-4.0, -0.25)),
            ]
        },
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{floats, worst};

    /// By the branch of Mächler's that has all its digits in f64.
    fn exact(x: f64) -> f64 {
        if x > -LN_2 { (-x.exp_m1()).ln() } else { (-x.exp()).ln_1p() }
    }

    #[test]
    fn log1mexp_keeps_its_digits() {
        // Down to where results are not normal.
        let xs = floats().filter(|x| (-87.0..0.0).contains(x) && x.abs() >= f32::MIN_POSITIVE);
        let (off, at) = worst(&[xs.collect()], |x| log1mexp(x[0]), |x| exact(x[0])).unwrap();
        assert!(off <= 5.0, "{off} ulp off at {at:?}");
    }

    #[test]
    fn the_gradient_of_log1mexp_keeps_its_digits() {
        fn slope(x: Tensor<'_>) -> Tensor<'_> {
            x.graph().gradients(&[log1mexp(x)], &[x], None)[0].unwrap()
        }
        let exact = |x: f64| x.exp() / x.exp_m1();
        let xs = floats().filter(|x| (-87.0..-1e-30).contains(x)).collect();
        let (off, at) = worst(&[xs], |x| slope(x[0]), |x| exact(x[0])).unwrap();
        assert!(off <= 6.0, "{off} ulp off at {at:?}");
    }

    #[test]
    fn log1mexp_at_its_ends() {
        let far = |x: &[f64]| if x[0] < -1.0 { 0.0 } else { f64::NEG_INFINITY };
        let ends = vec![f32::NEG_INFINITY, -0.0, 0.0];
        assert_eq!(worst(&[ends], |x| log1mexp(x[0]), far).unwrap().0, 0.0);
        for x in [1e-30, 1.0, f32::INFINITY, f32::NAN] {
            let (off, _) = worst(&[vec![x]], |x| log1mexp(x[0]), |_| 0.0).unwrap();
            assert!(off.is_nan(), "{x}");
        }
    }
}
