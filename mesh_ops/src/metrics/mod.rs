//! Metrics: how good predictions are, of one batch or of a whole data set.
//!
//! A [`Metric`] is a few sums over examples and a formula of them: accuracy is what is right over what there is.
//! So it needs no words for splits and batches. Where a batch is split, sums are owed like any other; over the
//! batches of a data set they are kept in variables ([`Metric::streaming`]), which a function adds to and
//! another sets to 0. That is exact, unlike a mean of the batches' values.
//!
//! Weights say how much an example counts; 0 for one that only fills a batch up. All metrics are compositions of
//! ops, and 0 where nothing counts at all, unless they say something else.

mod average;
mod classes;
mod counts;
mod curve;
mod metric;

pub use average::{average, perplexity, r2_score, root_mean_square};
pub use classes::{accuracy, confusion_matrix, top_k_accuracy};
pub use counts::{Counted, f1_score, intersection_over_union, precision, recall};
pub use curve::auc;
pub use metric::{Metric, Streaming};

use crate::elementwise::{cast, equal, select};
use crate::layers::fit::Fit;
use crate::room::*;

/// `a / b`, 0 where b is 0.
#[track_caller]
fn ratio<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
    let none = equal(b, 0.0);
    select(none, 0.0, a / select(none, 1.0, b))
}

/// That weights are floats and have no dims but those of the examples.
fn weights_fit<'g>(fit: Fit, weights: Option<Tensor<'g>>, examples: &Shape) -> Fit {
    match weights {
        Some(weights) => fit.floats("weights", weights).among("weights", weights, examples),
        None => fit,
    }
}

/// Numbers of examples with their weights, in f32 at least.
#[track_caller]
fn weighted<'g>(x: Tensor<'g>, weights: Option<Tensor<'g>>) -> Tensor<'g> {
    let wide = |x: Tensor<'g>| {
        let dtype = if x.dtype().is_float() { x.dtype().reduction() } else { DType::F32 };
        cast(x, dtype)
    };
    match weights.map(wide) {
        Some(weights) if !x.dtype().is_float() => cast(x, weights.dtype()) * weights,
        Some(weights) => cast(wide(x), weights.dtype()) * weights,
        None => wide(x),
    }
}

/// The sum over all dims.
#[track_caller]
fn total(x: Tensor<'_>) -> Tensor<'_> {
    crate::reduce::sum(x, x.shape())
}

/// How much all examples of this shape count.
#[track_caller]
fn count<'g>(x: Tensor<'g>, weights: Option<Tensor<'g>>, examples: &Shape) -> Tensor<'g> {
    let ones = x.graph().fill(1.0, examples, DType::F32);
    total(weighted(ones, weights))
}
