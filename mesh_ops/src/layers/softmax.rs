//! `softmax`, `log_softmax` and `logsumexp`, shifted by the maximum.
//!
//! On a split dim each costs a maximum and a sum over the group, of the size of the other dims.
//!
//! With an *extra logit* the sum has one more term, as if there were one more position: softmax then
//! adds up to less than 1, which lets attention attend to nothing. It lacks the dim, and may lack
//! others.

use super::fit::Fit;
use crate::elementwise::{clip, exp, log, maximum, reciprocal};
use crate::reduce::{max, sum};
use crate::room::*;

/// `x - max(x)` along `dim`, and the maximum; gradients do not see the shift.
#[track_caller]
pub(super) fn shifted<'g>(x: Tensor<'g>, dim: Dimension) -> (Tensor<'g>, Tensor<'g>) {
    let greatest = greatest(x, &[dim], None);
    (x - greatest, greatest)
}

/// The greatest of `x` along some dims and an extra logit, without a gradient.
#[track_caller]
fn greatest<'g>(x: Tensor<'g>, dims: &[Dimension], extra: Option<Tensor<'g>>) -> Tensor<'g> {
    let own = max(x.stop_gradient(), dims.iter().copied());
    match extra {
        Some(extra) => maximum(own, extra.stop_gradient()),
        None => own,
    }
}

/// The sum of weights along some dims and of the extra logit's weight.
#[track_caller]
fn total<'g>(
    weights: Tensor<'g>,
    dims: &[Dimension],
    extra: Option<Tensor<'g>>,
    greatest: Tensor<'g>,
) -> Tensor<'g> {
    let own = sum(weights, dims.iter().copied());
    match extra {
        Some(extra) => own + exp(extra - greatest),
        None => own,
    }
}

/// What is wrong with logits and an extra one.
#[track_caller]
fn refused<'g>(
    op: &str,
    x: Tensor<'g>,
    dims: &[Dimension],
    extra: Option<Tensor<'g>>,
) -> Option<Tensor<'g>> {
    let fit = dims.iter().fold(Fit::new().floats("logits", x), |fit, d| fit.has("logits", x, *d));
    let names: Vec<_> = dims.iter().map(|d| d.name).collect();
    let kept = x.shape().without(&names);
    let fit = match extra {
        Some(extra) => fit.among("an extra logit", extra, &kept).like("an extra logit", extra, x),
        None => fit,
    };
    fit.refused(op, x)
}

/// The shifted tensor, its exponentials and their sum.
struct Parts<'g> {
    shifted: Tensor<'g>,
    weights: Tensor<'g>,
    total: Tensor<'g>,
}

impl<'g> Parts<'g> {
    #[track_caller]
    fn new(op: &str, x: Tensor<'g>, dim: Dimension, extra: Option<Tensor<'g>>) -> Self {
        if let Some(poisoned) = refused(op, x, &[dim], extra) {
            return Self { shifted: poisoned, weights: poisoned, total: poisoned };
        }
        let greatest = greatest(x, &[dim], extra);
        let shifted = x - greatest;
        let weights = exp(shifted);
        Self { shifted, weights, total: total(weights, &[dim], extra, greatest) }
    }
}

/// `log(sum(exp(x)))` along `dim`: -inf if every element is -inf (and the gradient NaN there, as in
/// JAX), inf if one is inf.
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
    let _layer = x.graph().for_layer("logsumexp");
    let dims: Vec<_> = dims.into_iter().collect();
    if let Some(poisoned) = refused("logsumexp", x, &dims, extra_logit) {
        return poisoned;
    }
    // Shifting by an infinity would be inf - inf.
    let most = x.dtype().largest();
    let greatest = clip(greatest(x, &dims, extra_logit), -most, most);
    log(total(exp(x - greatest), &dims, extra_logit, greatest)) + greatest
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
    let _layer = x.graph().for_layer("log_softmax");
    let parts = Parts::new("log_softmax", x, dim, extra_logit);
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
    let _layer = x.graph().for_layer("softmax");
    let parts = Parts::new("softmax", x, dim, extra_logit);
    parts.weights * reciprocal(parts.total)
}
