//! `softmax`, `log_softmax` and `logsumexp` along a dim, shifted by the maximum.
//!
//! On a split dim each costs a maximum and a sum over the group, of the size of the other dims.

use crate::elementwise::{exp, log};
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
