//! Means over the elements that count.

use crate::elementwise::{cast, equal, not_equal, select};
use crate::layers::fit::Fit;
use crate::reduce::sum;
use crate::room::*;

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
    cast(not_equal(targets, 0.0), dtype)
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
    let safe = select(equal(total, 0.0), 1.0, total);
    sum(x * weights, x.shape()) / safe
}
