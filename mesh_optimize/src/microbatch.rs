//! Gradient accumulation: a batch is computed in parts, one after another, in a fraction of the
//! memory.

use crate::clip::Pair;
use mesh_core::graph::{Graph, Tensor};
use mesh_core::names::{DType, Dimension, Shape, dim};
use mesh_ops::Ops;
use mesh_ops::elementwise::cast;
use std::panic::Location;

/// The loss and the gradients of a model over a batch that is cut into `parts`, which are computed
/// one after another.
///
/// `model` gets one part of each of `features`, in which the dim `batch` is `batch.size / parts`
/// long, and returns a loss that is a mean over it. The results are the means over the parts: of
/// the losses, and of the gradients with respect to every trainable variable. They equal those of
/// the whole batch. A variable that the loss does not depend on has no gradient.
///
/// Part `i` takes every `parts`-th example, beginning with example `i`, so the examples of a split
/// batch stay on their processors. Over a split batch, the sums of gradients stay pending through
/// all iterations and are reduced once, after the last.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, microbatches};
///
/// let g = mesh_ops::graph();
/// let (batch, x, y) = (dim("batch", 32), dim("x", 8), dim("y", 4));
/// let input = g.input("input", [batch, x], F32);
/// let (loss, grads) = microbatches(&g, batch, 4, &[input], |part| part[0].dense(y, "out").square().mean());
/// g.function("train", [input], [loss], Sgd::new(0.1).apply_grads(&grads));
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn microbatches<'g>(
    graph: &'g Graph,
    batch: Dimension,
    parts: usize,
    features: &[Tensor<'g>],
    model: impl FnOnce(&[Tensor<'g>]) -> Tensor<'g>,
) -> (Tensor<'g>, Vec<Pair<'g>>) {
    let (loss, [], grads) =
        microbatches_with_metrics(graph, batch, parts, features, |part| (model(part), []));
    (loss, grads)
}

/// As [`microbatches`], for a model that also returns metrics: floats, each a mean over its part. The
/// results are their means over the parts, which equal those of the whole batch; of bf16 they are f32.
///
/// Name them with [`Trainer::metric_names`](crate::training::Trainer::metric_names): a probe cannot
/// stand in the model, which is the body of a loop.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, microbatches_with_metrics};
///
/// let g = mesh_ops::graph();
/// let (batch, x, y) = (dim("batch", 32), dim("x", 8), dim("y", 4));
/// let input = g.input("input", [batch, x], F32);
/// let (loss, [size], grads) = microbatches_with_metrics(&g, batch, 4, &[input], |part| {
///     let out = part[0].dense(y, "out");
///     (out.square().mean(), [out.abs().mean()])
/// });
/// g.function("train", [input], [loss, size], Sgd::new(0.1).apply_grads(&grads));
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn microbatches_with_metrics<'g, const M: usize>(
    graph: &'g Graph,
    batch: Dimension,
    parts: usize,
    features: &[Tensor<'g>],
    model: impl FnOnce(&[Tensor<'g>]) -> (Tensor<'g>, [Tensor<'g>; M]),
) -> (Tensor<'g>, [Tensor<'g>; M], Vec<Pair<'g>>) {
    if parts == 0 || !batch.size.is_multiple_of(parts) {
        let message = format!("{batch} cannot be cut into {parts} equal parts");
        graph.record("microbatches", message);
        let poison = graph.scalar(0.0, DType::F32).poisoned();
        return (poison, [poison; M], Vec::new());
    }
    let iterations = dim("microbatch", parts);
    let (share, caller) = (1.0 / parts as f64, Location::caller());
    let features: Vec<_> = {
        let _caller = graph.for_line(caller);
        features.iter().map(|x| in_parts(*x, batch, iterations)).collect()
    };
    let mut updated = Vec::new();
    let sums = graph.sum_over(iterations, &features, |part| {
        let (loss, metrics) = model(part);
        let _caller = graph.for_line(caller);
        let variables = graph.trainable_variables();
        let values: Vec<_> = variables.iter().map(|variable| variable.value()).collect();
        let grads = graph.gradients(&[loss], &values, None);
        updated = grads.iter().map(Option::is_some).zip(variables).collect();
        let metrics = metrics.map(|metric| averaged(metric, batch, share));
        let grads = grads.into_iter().flatten().map(|grad| grad * share);
        std::iter::once(loss * share).chain(metrics).chain(grads).collect()
    });
    let mut sums = sums.into_iter();
    let mut next = || sums.next().unwrap_or_else(|| graph.scalar(0.0, DType::F32).poisoned());
    let (loss, metrics) = (next(), std::array::from_fn(|_| next()));
    let grad_of = |(has, variable): (bool, _)| (has.then(&mut next), variable);
    (loss, metrics, updated.into_iter().map(grad_of).collect())
}

/// A metric's part of a mean.
#[track_caller]
fn averaged(metric: Tensor<'_>, batch: Dimension, share: f64) -> Tensor<'_> {
    let problem = if metric.is_poisoned() {
        return metric;
    } else if !metric.dtype().is_float() {
        "a metric is of floats: cast it to f32"
    } else if metric.shape().contains(batch.name) {
        "a metric is a mean over the examples of a part"
    } else {
        return cast(metric, metric.dtype().reduction()) * share;
    };
    metric.graph().record("microbatches", format!("{metric:?} is no metric: {problem}"));
    metric.poisoned()
}

/// Cuts the batch dim into two, moves the one over parts to the front and keeps the other.
#[track_caller]
fn in_parts<'g>(x: Tensor<'g>, batch: Dimension, iterations: Dimension) -> Tensor<'g> {
    let shape = x.shape();
    if x.is_poisoned() || shape.get(batch.name) != Some(batch) {
        if !x.is_poisoned() {
            x.graph().record("microbatches", format!("{x:?} has no dim {batch} to cut"));
        }
        return x.poisoned();
    }
    let part = batch.resized(batch.size / iterations.size);
    let cut = |d: Dimension| if d == batch { vec![part, iterations] } else { vec![d] };
    let dims: Vec<_> = shape.iter().flat_map(cut).collect();
    let front = Shape::new(
        std::iter::once(iterations).chain(shape.iter().map(|d| if d == batch { part } else { d })),
    );
    x.reshape(dims).transpose(front.unwrap_or_default())
}
