//! `relu`: what is above 0.
//!
//! | function | gradient |
//! |---|---|
//! | `relu(x) = max(x, 0)` | `dy` above 0, else 0 |
//!
//! Not linear.

use super::{Elementwise, Linear, map};
use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Relu;

/// `max(x, 0)`
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::relu(x).shape(), x.shape());
/// ```
#[track_caller]
pub fn relu(x: Tensor<'_>) -> Tensor<'_> {
    map(Relu, &[x])
}

impl Elementwise for Relu {
    const NAME: &'static str = "relu";
    const ARITY: usize = 1;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().max(0.0)
    }
    fn gradient<'g>(&self, _: &[Tensor<'g>], y: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(map(ReluGradient, &[y, dy]))])
    }
}

/// `dy` where `y > 0`, else 0: one pass instead of a comparison, a cast and a product.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ReluGradient;

impl Elementwise for ReluGradient {
    const NAME: &'static str = "relu_gradient";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().greater(0.0).select(x[1].clone(), 0.0)
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Moves, &[&[1]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![None, Some(map(ReluGradient, &[x[0], dy]))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Relu>>(|_, x, _| x[0].max(0.0)),
            &Elements::<Map<ReluGradient>>(|_, x, _| if x[0] > 0.0 { x[1] } else { 0.0 }),
        ],
        cases: || vec![unary("relu", |x| relu(x), F32, Fill::AwayFromZero)],
    };
}
