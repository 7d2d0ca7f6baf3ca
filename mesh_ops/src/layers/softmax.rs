//! `softmax`, `log_softmax` and `logsumexp` along a dim, shifted by the maximum.
//!
//! On a split dim each costs a maximum and a sum over the group, of the size of the other dims.

use crate::elementwise::{exp, log, maximum};
use crate::reduce::{max, sum};
use crate::room::*;

/// `x - max(x)` along `dim`, and the maximum; gradients do not see the shift.
#[track_caller]
pub(super) fn shifted<'g>(x: Tensor<'g>, dim: Dimension) -> (Tensor<'g>, Tensor<'g>) {
    let greatest = max(x.stop_gradient(), [dim]);
    (x - greatest, greatest)
}

/// `log(sum(exp(x)))` along `dim`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// assert_eq!(mesh_ops::layers::logsumexp(x, dim("b", 3)).shape().to_string(), "[a:2]");
/// ```
#[track_caller]
pub fn logsumexp<'g>(x: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let (shifted, greatest) = shifted(x, dim);
    log(sum(exp(shifted), [dim])) + greatest
}

/// `x - logsumexp(x)` along `dim`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// assert_eq!(mesh_ops::layers::log_softmax(x, dim("b", 3)).shape(), x.shape());
/// ```
#[track_caller]
pub fn log_softmax<'g>(x: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let (shifted, _) = shifted(x, dim);
    shifted - log(sum(exp(shifted), [dim]))
}

/// `exp(x) / sum(exp(x))` along `dim`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// assert_eq!(mesh_ops::layers::softmax(x, dim("b", 3)).shape(), x.shape());
/// ```
#[track_caller]
pub fn softmax<'g>(x: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let (shifted, _) = shifted(x, dim);
    let weights = exp(shifted);
    weights / sum(weights, [dim])
}

/// As [`softmax`], with one more logit whose weight is left out of the result: weights then add up
/// to less than 1. With logit 0, attention may attend to nothing.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// let y = mesh_ops::layers::softmax_with_extra(x, dim("b", 3), g.scalar(0.0, F32));
/// assert_eq!(y.shape(), x.shape());
/// ```
#[track_caller]
pub fn softmax_with_extra<'g>(x: Tensor<'g>, dim: Dimension, extra: Tensor<'g>) -> Tensor<'g> {
    let greatest = maximum(max(x.stop_gradient(), [dim]), extra.stop_gradient());
    let weights = exp(x - greatest);
    weights / (sum(weights, [dim]) + exp(extra - greatest))
}
