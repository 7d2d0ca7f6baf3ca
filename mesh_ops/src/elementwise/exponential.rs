//! `exp` and `log`, the natural ones; `expm1` and `log1p`, which do not cancel near 0.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `exp(x)` | `y dy` | |
//! | `log(x)` | `dy / x` | -inf at 0, NaN below |
//! | `expm1(x) = exp(x) - 1` | `(y + 1) dy` | |
//! | `log1p(x) = log(1 + x)` | `dy / (1 + x)` | -inf at -1, NaN below |
//!
//! None is linear. `expm1` and `log1p` are compositions, at most 5 ulp off in f32.

use super::unary::unary;
use crate::room::*;
use mesh_core::program::Expr;

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
    // What is greater than 1e20 is what it is plus 1.
    value |x| x.clone().greater(1e20).select(x.clone().log(), log_plus_one(x));
    gradient |x, _, dy| Some(dy / (x + 1.0));
}

/// `exp(x) - 1` for `x <= 1/2`, without the cancellation near 0: with `t = tanh(x / 2)` it is
/// `2 t / (1 - t)`, and `1 - t` is between 3/4 and 2.
pub(super) fn exp_minus_one(x: Expr) -> Expr {
    let t = (0.5 * x).tanh();
    2.0 * t.clone() / (1.0 - t)
}

/// `log(1 + u)` for finite u, exact to rounding also where `1 + u` is not: the error of the rounded
/// sum `w` is in `log(w)` and in `w - 1` alike, and cancels in their ratio.
pub(super) fn log_plus_one(u: Expr) -> Expr {
    let w = 1.0 + u.clone();
    let ratio = w.clone().log() / (w.clone() - 1.0);
    w.equal(1.0).select(u.clone(), u * ratio)
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
            ]
        },
    };
}
