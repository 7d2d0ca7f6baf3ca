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

use super::unary::unary;
use super::{Elementwise, exp, map};
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
    value |x| x.clone().max(0.0) + (-x.abs()).exp().log1p();
    gradient |x, _, dy| Some(dy * sigmoid(x));

    /// `x * sigmoid(x)`, also known as SiLU.
    #[doc(alias = "silu")]
    Swish swish float;
    value |x| x.clone() * x.logistic();
    gradient |x, _, dy| {
        let s = sigmoid(x);
        Some(dy * (s * (1.0 + x * (1.0 - s))))
    };

    /// `0.5 x (1 + erf(x / sqrt(2)))`, the Gaussian error linear unit. It is computed as `x P` with the share P of
    /// a normal distribution that is below x, which does not cancel for negative x.
    GeluExact gelu_exact float;
    value |x| x.clone() * x.normal_cdf();
    gradient |x, _, dy| Some(dy * (normal_cdf(x) + x * normal_density(x)));

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

/// The share of a standard normal distribution that is below `x`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NormalCdf;

impl Elementwise for NormalCdf {
    const NAME: &'static str = "normal_cdf";
    const ARITY: usize = 1;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().normal_cdf()
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(dy * normal_density(x[0]))])
    }
}

fn normal_cdf(x: Tensor<'_>) -> Tensor<'_> {
    map(NormalCdf, &[x])
}

/// The slope of [`normal_cdf`].
fn normal_density(x: Tensor<'_>) -> Tensor<'_> {
    0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * exp(-0.5 * (x * x))
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::random::proof::below;
    use crate::testing::proof::*;
    use std::f64::consts::{PI, SQRT_2};

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Tanh>>(|_, x, _| x[0].tanh()),
            &Elements::<Map<Sigmoid>>(|_, x, _| logistic(x[0])),
            &Elements::<Map<Erf>>(|_, x, _| error_function(x[0])),
            &Elements::<Map<Erfc>>(|_, x, _| 2.0 * below(-x[0] * SQRT_2)),
            &Elements::<Map<Softplus>>(|_, x, _| x[0].max(0.0) + (-x[0].abs()).exp().ln_1p()),
            &Elements::<Map<Swish>>(|_, x, _| x[0] * logistic(x[0])),
            &Elements::<Map<GeluExact>>(|_, x, _| {
                0.5 * x[0] * (1.0 + error_function(x[0] / SQRT_2))
            }),
            &Elements::<Map<NormalCdf>>(|_, x, _| 0.5 * (1.0 + error_function(x[0] / SQRT_2))),
            &Elements::<Map<Gelu>>(|_, x, _| {
                let inner = (2.0 / PI).sqrt() * (x[0] + 0.044715 * x[0].powi(3));
                0.5 * x[0] * (1.0 + inner.tanh())
            }),
        ],
        cases: || {
            vec![
                unary("tanh", |x| tanh(x), F32, Fill::Normal),
                unary("sigmoid", |x| sigmoid(x), F32, Fill::Normal),
                unary("erf", |x| erf(x), F32, Fill::Normal),
                unary("erf: f64", |x| erf(x), F64, Fill::Normal),
                unary("erfc", |x| erfc(x), F32, Fill::Normal),
                unary("erfc: f64", |x| erfc(x), F64, Fill::Normal),
                unary("softplus", |x| softplus(x), F32, Fill::Normal),
                unary("swish", |x| swish(x), F32, Fill::Normal),
                unary("gelu", |x| gelu(x), F32, Fill::Normal),
                unary("gelu_exact", |x| gelu_exact(x), F32, Fill::Normal),
                unary("gelu_exact: f64", |x| gelu_exact(x), F64, Fill::Normal),
            ]
        },
    };

    fn logistic(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    fn error_function(x: f64) -> f64 {
        2.0 * below(x * SQRT_2) - 1.0
    }
}
