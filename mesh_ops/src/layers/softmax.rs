//! `softmax`, `log_softmax` and `logsumexp`, shifted by the maximum.
//!
//! On a split dim each costs a maximum and a sum over the group, of the size of the other dims.
//!
//! With an *extra logit* the sum has one more term, as if there were one more position: softmax then
//! adds up to less than 1, which lets attention attend to nothing. It lacks the dim, and may lack
//! others.

use crate::elementwise::{exp, log, maximum};
use crate::reduce::{max, sum};
use crate::room::*;

/// `x - max(x)` along `dim`, and the maximum; gradients do not see the shift.
#[track_caller]
pub(super) fn shifted<'g>(x: Tensor<'g>, dim: Dimension) -> (Tensor<'g>, Tensor<'g>) {
    let greatest = max(x.stop_gradient(), [dim]);
    (x - greatest, greatest)
}

/// The shifted tensor, its exponentials, their sum, and the shift.
struct Parts<'g> {
    shifted: Tensor<'g>,
    weights: Tensor<'g>,
    total: Tensor<'g>,
    greatest: Tensor<'g>,
}

impl<'g> Parts<'g> {
    #[track_caller]
    fn new(x: Tensor<'g>, dims: Vec<Dimension>, extra_logit: Option<Tensor<'g>>) -> Self {
        let extra = Self::checked(extra_logit, &dims);
        let mut greatest = max(x.stop_gradient(), dims.iter().copied());
        if let Some(extra) = extra {
            greatest = maximum(greatest, extra.stop_gradient());
        }
        let shifted = x - greatest;
        let weights = exp(shifted);
        let mut total = sum(weights, dims);
        if let Some(extra) = extra {
            total = total + exp(extra - greatest);
        }
        Self { shifted, weights, total, greatest }
    }

    /// The extra logit, poisoned if it has a dim that is summed.
    #[track_caller]
    fn checked(extra: Option<Tensor<'g>>, dims: &[Dimension]) -> Option<Tensor<'g>> {
        let extra = extra?;
        let Some(dim) = dims.iter().find(|dim| extra.shape().contains(dim.name)) else {
            return Some(extra);
        };
        let message = format!(
            "an extra logit lacks the dim that is summed; {extra:?} has a dim {} of its own",
            dim.name
        );
        extra.graph().record("softmax", message);
        Some(extra.poisoned())
    }
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
    logsumexp_with(x, [dim], None)
}

/// `log(sum(exp(x)) + exp(extra_logit))`, the sum over some dims.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (a, b, c) = (dim("a", 2), dim("b", 3), dim("c", 4));
/// let x = g.input("x", [a, b, c], F32);
/// assert_eq!(mesh_ops::layers::logsumexp_with(x, [a, b], None).shape().to_string(), "[c:4]");
/// ```
#[track_caller]
pub fn logsumexp_with<'g>(
    x: Tensor<'g>,
    dims: impl IntoIterator<Item = Dimension>,
    extra_logit: Option<Tensor<'g>>,
) -> Tensor<'g> {
    let parts = Parts::new(x, dims.into_iter().collect(), extra_logit);
    log(parts.total) + parts.greatest
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
    log_softmax_with(x, dim, None)
}

/// As [`log_softmax`], with an extra logit.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// let sink = g.scalar(0.0, F32);
/// assert_eq!(mesh_ops::layers::log_softmax_with(x, dim("b", 3), Some(sink)).shape(), x.shape());
/// ```
#[track_caller]
pub fn log_softmax_with<'g>(
    x: Tensor<'g>,
    dim: Dimension,
    extra_logit: Option<Tensor<'g>>,
) -> Tensor<'g> {
    let parts = Parts::new(x, vec![dim], extra_logit);
    parts.shifted - log(parts.total)
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
    softmax_with(x, dim, None)
}

/// As [`softmax`], with an extra logit.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 3)], F32);
/// let sink = g.input("sink", [dim("a", 2)], F32);
/// assert_eq!(mesh_ops::layers::softmax_with(x, dim("b", 3), Some(sink)).shape(), x.shape());
/// ```
#[track_caller]
pub fn softmax_with<'g>(
    x: Tensor<'g>,
    dim: Dimension,
    extra_logit: Option<Tensor<'g>>,
) -> Tensor<'g> {
    let parts = Parts::new(x, vec![dim], extra_logit);
    parts.weights / parts.total
}
