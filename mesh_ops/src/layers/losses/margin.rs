//! Losses that are 0 beyond a margin, and the similarity of vectors.

use super::refused;
use crate::elementwise::{equal, maximum, relu, rsqrt, select, sqrt, square};
use crate::layers::fit::Fit;
use crate::reduce::sum;
use crate::room::*;

/// The least length of a vector that a similarity divides by: torch's value.
const LEAST_LENGTH: f64 = 1e-8;

/// What is added to differences of which a distance is taken, so that its root has a slope: torch's value.
const APART: f64 = 1e-6;

/// `max(0, 1 - x target)` per element, with targets of 1 and -1: 0 where `x` is on the right side by at least
/// 1. Targets have no dims but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (x, side) = (g.input("x", [batch], F32), g.input("side", [batch], F32));
/// assert_eq!(mesh_ops::layers::hinge_loss(x, side).shape(), x.shape());
/// ```
#[track_caller]
pub fn hinge_loss<'g>(x: Tensor<'g>, targets: Tensor<'g>) -> Tensor<'g> {
    let _layer = x.graph().for_layer("hinge_loss");
    let _caller = x.graph().for_caller();
    if let Some(poisoned) = refused("hinge_loss", ("predictions", x), &[("targets", targets)]) {
        return poisoned;
    }
    relu(1.0 - x * targets)
}

/// `x` where the target is 1, else `max(0, margin - x)`, per element: a distance that shall be small for what
/// is alike, and at least the margin for what is not. Targets are 1 and -1; they have no dims but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (x, alike) = (g.input("x", [batch], F32), g.input("alike", [batch], F32));
/// assert_eq!(mesh_ops::layers::hinge_embedding_loss(x, alike, 1.0).shape(), x.shape());
/// ```
#[track_caller]
pub fn hinge_embedding_loss<'g>(x: Tensor<'g>, targets: Tensor<'g>, margin: f64) -> Tensor<'g> {
    const NAME: &str = "hinge_embedding_loss";
    let _layer = x.graph().for_layer(NAME);
    let _caller = x.graph().for_caller();
    if let Some(poisoned) = refused(NAME, ("distances", x), &[("targets", targets)]) {
        return poisoned;
    }
    select(equal(targets, 1.0), x, relu(margin - x))
}

/// `max(0, margin - target (x - y))` per element: `x` shall be above `y` by the margin where the target is 1,
/// and below it where that is -1. `y` and targets have no dims but those of `x`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let [x, y, first] = ["x", "y", "first"].map(|name| g.input(name, [batch], F32));
/// assert_eq!(mesh_ops::layers::margin_ranking_loss(x, y, first, 0.5).shape(), x.shape());
/// ```
#[track_caller]
pub fn margin_ranking_loss<'g>(
    x: Tensor<'g>,
    y: Tensor<'g>,
    targets: Tensor<'g>,
    margin: f64,
) -> Tensor<'g> {
    let _layer = x.graph().for_layer("margin_ranking_loss");
    let _caller = x.graph().for_caller();
    let others = [("what is ranked beside", y), ("targets", targets)];
    if let Some(poisoned) = refused("margin_ranking_loss", ("what is ranked", x), &others) {
        return poisoned;
    }
    relu(margin - targets * (x - y))
}

/// That two tensors of vectors are floats of one dtype, and have the dim.
fn vectors<'g>(x: (&str, Tensor<'g>), y: (&str, Tensor<'g>), dim: Dimension) -> Fit {
    let fit = Fit::new().floats(x.0, x.1).floats(y.0, y.1).like(y.0, y.1, x.1);
    fit.has(x.0, x.1, dim).has(y.0, y.1, dim)
}

/// A vector divided by its length, or by 1e-8 if that is more.
#[track_caller]
pub(super) fn unit(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    let square = sum(square(x), [dim]);
    x * rsqrt(maximum(square, LEAST_LENGTH * LEAST_LENGTH))
}

/// The cosine of the angle between vectors along `dim`: `x y / (|x| |y|)`, where a length counts as 1e-8 at
/// least. Dims that one of them lacks make all pairs: that of vectors `[queries, dim]` and `[keys, dim]` is
/// `[queries, keys]`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (queries, keys, model) = (dim("queries", 4), dim("keys", 5), dim("model", 8));
/// let (x, y) = (g.input("x", [queries, model], F32), g.input("y", [keys, model], F32));
/// let similarity = mesh_ops::layers::cosine_similarity(x, y, model);
/// assert_eq!(similarity.shape().to_string(), "[queries:4, keys:5]");
/// ```
#[track_caller]
pub fn cosine_similarity<'g>(x: Tensor<'g>, y: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    const NAME: &str = "cosine_similarity";
    let _layer = x.graph().for_layer(NAME);
    let _caller = x.graph().for_caller();
    if let Some(poisoned) = vectors(("vectors", x), ("vectors", y), dim).refused(NAME, x) {
        return poisoned;
    }
    crate::einsum::contract(unit(x, dim), &[unit(y, dim)], [dim])
}

/// `1 - c` where the target is 1, else `max(0, c - margin)`, with `c` the [`cosine_similarity`] of vectors
/// along `dim`. Targets are 1 and -1; they have no dims but those of the similarity.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, model) = (dim("batch", 4), dim("model", 8));
/// let [x, y] = ["x", "y"].map(|name| g.input(name, [batch, model], F32));
/// let alike = g.input("alike", [batch], F32);
/// let loss = mesh_ops::layers::cosine_embedding_loss(x, y, alike, model, 0.1);
/// assert_eq!(loss.shape(), alike.shape());
/// ```
#[track_caller]
pub fn cosine_embedding_loss<'g>(
    x: Tensor<'g>,
    y: Tensor<'g>,
    targets: Tensor<'g>,
    dim: Dimension,
    margin: f64,
) -> Tensor<'g> {
    const NAME: &str = "cosine_embedding_loss";
    let _layer = x.graph().for_layer(NAME);
    let _caller = x.graph().for_caller();
    if let Some(poisoned) = vectors(("vectors", x), ("vectors", y), dim).refused(NAME, x) {
        return poisoned;
    }
    let cosine = crate::einsum::contract(unit(x, dim), &[unit(y, dim)], [dim]);
    if let Some(poisoned) = refused(NAME, ("the similarity", cosine), &[("targets", targets)]) {
        return poisoned;
    }
    let alike = equal(targets, 1.0);
    select(alike, 1.0 - cosine, relu(cosine - margin))
}

/// `max(0, |anchor - positive| - |anchor - negative| + margin)` with lengths along `dim` of the differences
/// plus 1e-6 (torch's `triplet_margin_loss`): what belongs to the anchor shall be nearer than what does not, by the
/// margin. The others have no dims but those of the anchor.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, model) = (dim("batch", 4), dim("model", 8));
/// let [a, p, n] = ["a", "p", "n"].map(|name| g.input(name, [batch, model], F32));
/// let loss = mesh_ops::layers::triplet_margin_loss(a, p, n, model, 1.0);
/// assert_eq!(loss.shape().to_string(), "[batch:4]");
/// ```
#[track_caller]
pub fn triplet_margin_loss<'g>(
    anchor: Tensor<'g>,
    positive: Tensor<'g>,
    negative: Tensor<'g>,
    dim: Dimension,
    margin: f64,
) -> Tensor<'g> {
    const NAME: &str = "triplet_margin_loss";
    let _layer = anchor.graph().for_layer(NAME);
    let _caller = anchor.graph().for_caller();
    let others = [("positives", positive), ("negatives", negative)];
    if let Some(poisoned) = refused(NAME, ("anchors", anchor), &others) {
        return poisoned;
    }
    let fit = vectors(("anchors", anchor), ("positives", positive), dim);
    if let Some(poisoned) = fit.has("negatives", negative, dim).refused(NAME, anchor) {
        return poisoned;
    }
    let distance = |other| sqrt(sum(square(anchor - other + APART), [dim]));
    relu(distance(positive) - distance(negative) + margin)
}
