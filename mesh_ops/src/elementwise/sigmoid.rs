//! Sigmoid-shaped functions and what they gate: `tanh`, `sigmoid`, `erf`, `erfc`, `softplus`,
//! `swish`, `gelu`, `gelu_exact`.
//!
//! | function | gradient |
//! |---|---|
//! | `tanh(x)` | `(1 - y^2) dy` |
//! | `sigmoid(x) = 1 / (1 + exp(-x))` | `y (1 - y) dy` |
//! | `erf(x)` | `2 / sqrt(pi) exp(-x^2) dy` |
//! | `erfc(x) = 1 - erf(x)` | `-2 / sqrt(pi) exp(-x^2) dy` |
//! | `softplus(x) = log(1 + exp(x))` | `sigmoid(x) dy` |
//! | `swish(x) = x s`, `s = sigmoid(x)` | `s (1 + x (1 - s)) dy` |
//! | `gelu(x) = x s`, `s = sigmoid(2 u)`, `u = sqrt(2/pi) (x + 0.044715 x^3)` | `(s + 2 x s (1 - s) u') dy` |
//! | `gelu_exact(x) = x P`, `P = erfc(-x / sqrt(2)) / 2` | `(P + x exp(-x^2 / 2) / sqrt(2 pi)) dy` |
//!
//! `gelu` is the tanh approximation: `0.5 (1 + tanh(u))` is `sigmoid(2 u)`, which does not cancel
//! for negative x. `softplus` is computed as `max(x, 0) + log(1 + exp(-|x|))`, which neither
//! overflows nor loses small values. `swish`, `gelu` and `gelu_exact` are NaN at minus infinity. None
//! is linear.

use super::exp;
use super::exponential::log_plus_one;
use super::unary::unary;
use crate::room::*;
use mesh_core::program::Expr;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// `2 sqrt(2 / pi)`, the factor of `2 u` in `gelu`.
const GELU_SCALE: f64 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const GELU_CUBIC: f64 = 0.044715;

unary! {
    /// Hyperbolic tangent.
    Tanh tanh float;
    value |x| x.tanh();
    gradient |_, y, dy| Some(dy * (1.0 - y * y));

    /// `1 / (1 + exp(-x))`
    Sigmoid sigmoid float;
    value |x| x.logistic();
    gradient |_, y, dy| Some(dy * (y * (1.0 - y)));

    /// Error function.
    Erf erf float;
    value |x| x.erf();
    gradient |x, _, dy| Some(dy * (FRAC_2_SQRT_PI * exp(-(x * x))));

    /// `1 - erf(x)`, which does not cancel for large x.
    Erfc erfc float;
    value |x| x.erfc();
    gradient |x, _, dy| Some(dy * (-FRAC_2_SQRT_PI * exp(-(x * x))));

    /// `log(1 + exp(x))`, a smooth `relu`.
    Softplus softplus float;
    value |x| x.clone().max(0.0) + log_plus_one((-x.abs()).exp());
    gradient |x, _, dy| Some(dy * sigmoid(x));

    /// `x * sigmoid(x)`, also known as SiLU.
    #[doc(alias = "silu")]
    Swish swish float;
    value |x| x.clone() * x.logistic();
    gradient |x, _, dy| {
        let s = sigmoid(x);
        Some(dy * (s * (1.0 + x * (1.0 - s))))
    };

    /// `0.5 x (1 + erf(x / sqrt(2)))`, the Gaussian error linear unit. For negative x it is computed as
    /// `0.5 x erfc(-x / sqrt(2))`, which does not cancel; rounding `x / sqrt(2)` there costs about
    /// `x^2` ulps of the result.
    GeluExact gelu_exact float;
    value |x| 0.5 * x.clone() * (-FRAC_1_SQRT_2 * x).erfc();
    gradient |x, _, dy| {
        let below = 0.5 * erfc(-FRAC_1_SQRT_2 * x);
        let density = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * exp(-0.5 * (x * x));
        Some(dy * (below + x * density))
    };

    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`, the Gaussian error linear unit in its
    /// tanh approximation.
    Gelu gelu float;
    value |x| {
        let cubic = 1.0 + GELU_CUBIC * (x.clone() * x.clone());
        x.clone() * (GELU_SCALE * (x * cubic)).logistic()
    };
    gradient |x, _, dy| {
        let square = x * x;
        let s = sigmoid(GELU_SCALE * (x * (1.0 + GELU_CUBIC * square)));
        let inner = GELU_SCALE * (1.0 + 3.0 * GELU_CUBIC * square);
        Some(dy * (s * (1.0 + x * ((1.0 - s) * inner))))
    };
}
