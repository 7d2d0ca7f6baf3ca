//! Losses of single elements, and means over the elements that count.

use crate::elementwise::{abs, cast, equal, not_equal, relu, select, softplus};
use crate::room::*;

/// `-z log(s) - (1 - z) log(1 - s)` with `s = sigmoid(logits)` and targets `z`, per element:
/// `max(x, 0) - x z + log(1 + exp(-|x|))`, which does not overflow.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (logits, targets) = (g.input("x", [batch], F32), g.input("z", [batch], F32));
/// let loss = mesh_ops::layers::sigmoid_cross_entropy(logits, targets);
/// assert_eq!(loss.shape(), logits.shape());
/// ```
#[track_caller]
pub fn sigmoid_cross_entropy<'g>(logits: Tensor<'g>, targets: Tensor<'g>) -> Tensor<'g> {
    relu(logits) - logits * targets + softplus(-abs(logits))
}

/// 1 where a target is not 0, else 0: the weights of tokens when 0 is padding.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let targets = g.input("targets", [dim("batch", 4), dim("length", 8)], I32);
/// assert_eq!(mesh_ops::layers::weights_nonzero(targets, F32).dtype(), F32);
/// ```
#[track_caller]
pub fn weights_nonzero(targets: Tensor<'_>, dtype: DType) -> Tensor<'_> {
    cast(not_equal(targets, targets.graph().scalar(0.0, targets.dtype())), dtype)
}

/// `sum(x * weights) / sum(weights)`, 0 if the weights add up to 0: the mean over tokens that
/// count.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let tokens = [dim("batch", 4), dim("length", 8)];
/// let (loss, weights) = (g.input("loss", tokens, F32), g.input("weights", tokens, F32));
/// assert!(mesh_ops::layers::weighted_mean(loss, weights).shape().is_scalar());
/// ```
#[track_caller]
pub fn weighted_mean<'g>(x: Tensor<'g>, weights: Tensor<'g>) -> Tensor<'g> {
    if x.is_poisoned() || weights.is_poisoned() {
        return x.poisoned();
    }
    let weights = crate::broadcast(weights, &x.shape());
    let sum = |x: Tensor<'g>| crate::reduce::sum(x, x.shape());
    let total = sum(weights);
    let (zero, one) = (x.graph().scalar(0.0, x.dtype()), x.graph().scalar(1.0, x.dtype()));
    sum(x * weights) / select(equal(total, zero), one, total)
}
