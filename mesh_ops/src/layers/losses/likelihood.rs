//! Negative logarithms of likelihoods, per element, without the terms that do not depend on the prediction.

use super::refused;
use crate::elementwise::{exp, log, maximum, square};
use crate::room::*;

/// The least variance that [`gaussian_nll`] divides by: torch's value.
pub const GAUSSIAN_EPSILON: f64 = 1e-6;

/// `(log(v) + (target - mean)^2 / v) / 2` per element, with `v` the variance, or 1e-6 if that is more: of a
/// normal distribution, less `log(2 pi) / 2` (Nix and Weigend, Estimating the mean and variance of the target
/// probability distribution, 1994). A variance below has no gradient (torch's has that of 1e-6). Variances and
/// targets have no dims but those of the mean.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let [mean, variance, target] = ["m", "v", "t"].map(|name| g.input(name, [batch], F32));
/// let loss = mesh_ops::layers::gaussian_nll(mean, variance, target);
/// assert_eq!(loss.shape(), mean.shape());
/// ```
#[track_caller]
pub fn gaussian_nll<'g>(mean: Tensor<'g>, variance: Tensor<'g>, target: Tensor<'g>) -> Tensor<'g> {
    let _layer = mean.graph().for_layer("gaussian_nll");
    let others = [("variances", variance), ("targets", target)];
    if let Some(poisoned) = refused("gaussian_nll", ("means", mean), &others) {
        return poisoned;
    }
    let variance = maximum(variance, GAUSSIAN_EPSILON);
    (log(variance) + square(target - mean) / variance) * 0.5
}

/// `exp(x) - target x` per element: of a Poisson distribution whose rate has the logarithm `x`, less the
/// logarithm of the target's factorial (torch's `poisson_nll_loss`). Targets have no dims but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (log_rate, count) = (g.input("x", [batch], F32), g.input("count", [batch], F32));
/// assert_eq!(mesh_ops::layers::poisson_nll(log_rate, count).shape(), count.shape());
/// ```
#[track_caller]
pub fn poisson_nll<'g>(log_rate: Tensor<'g>, target: Tensor<'g>) -> Tensor<'g> {
    let _layer = log_rate.graph().for_layer("poisson_nll");
    let given = ("logarithms of rates", log_rate);
    if let Some(poisoned) = refused("poisson_nll", given, &[("targets", target)]) {
        return poisoned;
    }
    exp(log_rate) - target * log_rate
}
