//! Losses of single elements, and means over the elements that count.

use super::fit::Fit;
use crate::elementwise::{abs, cast, equal, not_equal, relu, select, softplus};
use crate::reduce::sum;
use crate::room::*;

/// `-z log(s) - (1 - z) log(1 - s)` with `s = sigmoid(logits)` and targets `z`, per element:
/// `max(x, 0) - x z + log(1 + exp(-|x|))`, which does not overflow. Targets have no dims but those of
/// the logits.
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
    let _layer = logits.graph().for_layer("sigmoid_cross_entropy");
    let fit = Fit::new().floats("logits", logits).floats("targets", targets);
    let fit = fit.like("targets", targets, logits).among("targets", targets, &logits.shape());
    if let Some(poisoned) = fit.refused("sigmoid_cross_entropy", logits) {
        return poisoned;
    }
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
    let _layer = targets.graph().for_layer("weights_nonzero");
    cast(not_equal(targets, targets.scalar_like(0.0)), dtype)
}

/// `sum(x * weights) / sum(weights)`, 0 if the weights add up to 0: the mean over tokens that
/// count. Weights have no dims but those of `x`.
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
    let _layer = x.graph().for_layer("weighted_mean");
    let fit = Fit::new().floats("what is averaged", x).floats("weights", weights);
    let fit = fit.like("weights", weights, x).among("weights", weights, &x.shape());
    if let Some(poisoned) = fit.refused("weighted_mean", x) {
        return poisoned;
    }
    let weights = crate::broadcast(weights, &x.shape());
    let total = sum(weights, weights.shape());
    let safe = select(equal(total, x.scalar_like(0.0)), x.scalar_like(1.0), total);
    sum(x * weights, x.shape()) / safe
}
