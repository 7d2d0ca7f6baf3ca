//! Linear above 0 and something smaller below: `leaky_relu`, `elu`, `selu`.
//!
//! | function | above 0 | up to 0 | gradient |
//! |---|---|---|---|
//! | `leaky_relu(x, alpha)` | `x` | `alpha x` | `dy`; `alpha dy` |
//! | `elu(x)` | `x` | `exp(x) - 1` | `exp(min(x, 0)) dy` |
//! | `selu(x)` | `l x` | `l a (exp(x) - 1)` | `l dy`; `l a exp(x) dy` |
//!
//! At 0 `leaky_relu` and `selu` have the slope from below, `alpha` and `l a`; `elu` has slope 1
//! from both sides. `exp(x) - 1` does not cancel near 0. None is linear.

use super::exponential::exp_minus_one;
use super::unary::unary;
use super::{Elementwise, Linear, exp, float, greater, holds, map, minimum, select};
use crate::room::*;
use mesh_core::program::{Expr, Scalar};

/// `l` and `a` of `selu`: they keep zero mean and unit variance through deep networks
/// (Klambauer et al., 2017).
const SELU_SCALE: f64 = 1.0507009873554805;
const SELU_ALPHA: f64 = 1.6732632423543772;

unary! {
    /// `x` above 0, else `exp(x) - 1`.
    Elu elu float;
    value |x| x.clone().greater(0.0).select(x.clone(), exp_minus_one(x));
    gradient |x, _, dy| Some(dy * exp(minimum(x, x.scalar_like(0.0))));

    /// `elu` scaled to keep zero mean and unit variance: `1.0507 x` above 0, else
    /// `1.0507 * 1.6733 * (exp(x) - 1)`.
    Selu selu float;
    value |x| {
        let below = SELU_SCALE * SELU_ALPHA * exp_minus_one(x.clone());
        x.clone().greater(0.0).select(SELU_SCALE * x, below)
    };
    gradient |x, _, dy| {
        let zero = x.scalar_like(0.0);
        // The minimum keeps exp finite where it is not chosen, for the second derivative.
        let below = SELU_SCALE * SELU_ALPHA * exp(minimum(x, zero));
        Some(dy * select(greater(x, zero), x.scalar_like(SELU_SCALE), below))
    };
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LeakyRelu(Scalar);

/// `x` above 0, else `alpha * x`, with a finite alpha: 0.2 is usual.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::leaky_relu(x, 0.2).shape(), x.shape());
/// ```
#[track_caller]
pub fn leaky_relu(x: Tensor<'_>, alpha: f64) -> Tensor<'_> {
    map(LeakyRelu(Scalar::new(DType::F64, alpha)), &[x])
}

impl Elementwise for LeakyRelu {
    const NAME: &'static str = "leaky_relu";
    const ARITY: usize = 1;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        let alpha = self.0.value();
        if !alpha.is_finite() {
            return Err(OpError::new(format!("leaky_relu needs a finite alpha, not {alpha}")));
        }
        holds(Self::NAME, float(Self::NAME, inputs)?, alpha)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (x, alpha) = (x[0].clone(), self.0.value());
        // The same for these, in one loop over elements; with 0 an infinity would become NaN.
        if 0.0 < alpha && alpha <= 1.0 {
            return (alpha * x.clone()).max(x);
        }
        x.clone().greater(0.0).select(x.clone(), alpha * x)
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(map(LeakyReluGradient(self.0), &[x[0], dy]))])
    }
}

/// `dy` where `x > 0`, else `alpha * dy`; linear in dy.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LeakyReluGradient(Scalar);

impl Elementwise for LeakyReluGradient {
    const NAME: &'static str = "leaky_relu_gradient";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (x, dy) = (x[0].clone(), x[1].clone());
        x.greater(0.0).select(dy.clone(), self.0.value() * dy)
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Adds, &[&[1]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![None, Some(map(Self(self.0), &[x[0], dy]))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Elu>>(|_, x, _| if x[0] > 0.0 { x[0] } else { x[0].exp_m1() }),
            &Elements::<Map<Selu>>(|_, x, _| {
                1.0507009873554805
                    * if x[0] > 0.0 { x[0] } else { 1.6732632423543772 * x[0].exp_m1() }
            }),
            &Elements::<Map<LeakyRelu>>(|Map(LeakyRelu(alpha)), x, _| x[0] * slope(x[0], *alpha)),
            &Elements::<Map<LeakyReluGradient>>(|Map(LeakyReluGradient(alpha)), x, _| {
                x[1] * slope(x[0], *alpha)
            }),
        ],
        cases: || {
            vec![
                unary("elu", |x| elu(x), F32, Fill::AwayFromZero),
                unary("selu", |x| selu(x), F32, Fill::AwayFromZero),
                unary("leaky_relu", |x| leaky_relu(x, 0.25), F32, Fill::AwayFromZero),
            ]
        },
    };

    fn slope(x: f64, alpha: Scalar) -> f64 {
        if x > 0.0 { 1.0 } else { alpha.value() }
    }
}
