//! Averages of numbers, and what is made of them.

use super::{Metric, count, ratio, total, weighted, weights_fit};
use crate::elementwise::{exp, select, sqrt, square};
use crate::layers::fit::Fit;
use crate::room::*;

/// What is averaged and the weights; or a refusal.
#[track_caller]
fn sums<'g>(
    op: &str,
    x: Tensor<'g>,
    weights: Option<Tensor<'g>>,
) -> Result<[(&'static str, Tensor<'g>); 2], Tensor<'g>> {
    let fit = weights_fit(Fit::new().floats("what is averaged", x), weights, &x.shape());
    match fit.refused(op, x) {
        Some(poisoned) => Err(poisoned),
        None => {
            Ok([("total", total(weighted(x, weights))), ("count", count(x, weights, &x.shape()))])
        }
    }
}

#[track_caller]
fn averaged<'g>(
    op: &'static str,
    x: Tensor<'g>,
    weights: Option<Tensor<'g>>,
    formula: impl for<'a> Fn(&[Tensor<'a>]) -> Tensor<'a> + 'static,
) -> Metric<'g> {
    let _layer = x.graph().for_layer(op);
    let _caller = x.graph().for_caller();
    match sums(op, x, weights) {
        Ok(sums) => Metric::new(sums, formula),
        Err(poisoned) => Metric::poisoned(poisoned),
    }
}

/// The mean of `x` over all its dims: of losses, of errors. The mean squared error is the average of
/// [`squared_error`](crate::layers::squared_error).
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{layers::absolute_error, metrics::average};
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let [x, target, weight] = ["x", "target", "weight"].map(|name| g.input(name, [batch], F32));
/// let error = average(absolute_error(x, target), Some(weight));
/// assert!(error.value().shape().is_scalar());
/// ```
#[track_caller]
pub fn average<'g>(x: Tensor<'g>, weights: Option<Tensor<'g>>) -> Metric<'g> {
    averaged("average", x, weights, |sums| ratio(sums[0], sums[1]))
}

/// The root of the mean of `x^2` over all its dims; of residuals, the root mean squared error.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::root_mean_square;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let [x, target] = ["x", "target"].map(|name| g.input(name, [batch], F32));
/// assert!(root_mean_square(x - target, None).value().shape().is_scalar());
/// ```
#[track_caller]
pub fn root_mean_square<'g>(x: Tensor<'g>, weights: Option<Tensor<'g>>) -> Metric<'g> {
    let _layer = x.graph().for_layer("root_mean_square");
    let _caller = x.graph().for_caller();
    averaged("root_mean_square", square(x), weights, |sums| sqrt(ratio(sums[0], sums[1])))
}

/// `exp(mean(loss))` of the losses of single tokens, in natural logarithms: 1 at best.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{layers::weights_nonzero, metrics::perplexity};
/// # let g = mesh_ops::graph();
/// let (tokens, vocab) = ([dim("batch", 4), dim("length", 8)], dim("vocab", 100));
/// let logits = g.input("logits", tokens.into_iter().chain([vocab]), F32);
/// let target = g.input("target", tokens, I32);
/// let loss = logits.softmax_cross_entropy(target, vocab);
/// let metric = perplexity(loss, Some(weights_nonzero(target, F32)));
/// assert!(metric.value().shape().is_scalar());
/// ```
#[track_caller]
pub fn perplexity<'g>(loss: Tensor<'g>, weights: Option<Tensor<'g>>) -> Metric<'g> {
    averaged("perplexity", loss, weights, |sums| exp(ratio(sums[0], sums[1])))
}

/// The coefficient of determination: `1 - sum((target - x)^2) / sum((target - mean(target))^2)`; 1 at best, 0 for
/// a prediction of the mean. Where all targets are equal it is 1 if they are met, else 0. Targets have the dims
/// of `x`.
///
/// The denominator is a difference of sums, so that targets must not be much farther from 0 than from each other:
/// shift them by a constant if they are.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::r2_score;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let [x, target] = ["x", "target"].map(|name| g.input(name, [batch], F32));
/// assert!(r2_score(x, target, None).value().shape().is_scalar());
/// ```
#[track_caller]
pub fn r2_score<'g>(x: Tensor<'g>, target: Tensor<'g>, weights: Option<Tensor<'g>>) -> Metric<'g> {
    let _layer = x.graph().for_layer("r2_score");
    let _caller = x.graph().for_caller();
    let shape = x.shape();
    let fit = Fit::new().floats("predictions", x).floats("targets", target);
    let fit = fit.like("targets", target, x).exactly("targets", target, &shape);
    if let Some(poisoned) = weights_fit(fit, weights, &shape).refused("r2_score", x) {
        return Metric::poisoned(poisoned);
    }
    let sums = [
        ("residuals", total(weighted(square(target - x), weights))),
        ("targets", total(weighted(target, weights))),
        ("squares", total(weighted(square(target), weights))),
        ("count", count(x, weights, &shape)),
    ];
    Metric::new(sums, |sums| {
        let [residuals, targets, squares, count] = [0, 1, 2, 3].map(|i| sums[i]);
        let spread = squares - ratio(square(targets), count);
        let even = crate::elementwise::less_equal(spread, 0.0);
        let met = select(crate::elementwise::less_equal(residuals, 0.0), 1.0, residuals * 0.0);
        select(even, met, 1.0 - residuals / select(even, 1.0, spread))
    })
}
