//! `exp` and `log`, the natural ones.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `exp(x)` | `y dy` | |
//! | `log(x)` | `dy / x` | -inf at 0, NaN below |
//!
//! Neither is linear.

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
}

/// `exp(x) - 1` for `x <= 0`, without the cancellation near 0: with `t = tanh(x / 2)` it is
/// `2 t / (1 - t)`, and `1 - t` is between 1 and 2.
pub(super) fn exp_minus_one(x: Expr) -> Expr {
    let t = (0.5 * x).tanh();
    2.0 * t.clone() / (1.0 - t)
}

/// `log(1 + u)` for `u >= 0`, exact to rounding also where `1 + u` is not: the error of the rounded
/// sum `w` is in `log(w)` and in `w - 1` alike, and cancels in their ratio.
pub(super) fn log_plus_one(u: Expr) -> Expr {
    let w = 1.0 + u.clone();
    let ratio = w.clone().log() / (w.clone() - 1.0);
    w.equal(1.0).select(u.clone(), u * ratio)
}
