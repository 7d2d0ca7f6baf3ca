//! `nt_xent`: each example against all others of the batch.

use super::margin::unit;
use super::{out_of_range, refused};
use crate::elementwise::{equal, select};
use crate::layers::fit::Fit;
use crate::layers::softmax::logsumexp;
use crate::room::*;

/// The logit of an example with itself, which does not count.
const ITSELF: f64 = -1e9;

/// The loss of two views of each example of a batch (SimCLR, arXiv 2002.05709, equation 1), per example the
/// mean of its views' losses. A view's loss is the softmax cross-entropy of its similarities to all other views
/// of the batch, divided by `temperature`, where the other view of its example is the right one; a similarity
/// is the cosine along `dim`.
///
/// The negatives are those of the whole batch, however it is split: vectors are gathered along `batch` once for
/// each view, forward, and each processor compares its own examples with all. Both views have the same dims.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, model) = (dim("batch", 4), dim("model", 8));
/// let [one, other] = ["one", "other"].map(|name| g.input(name, [batch, model], F32));
/// let loss = mesh_ops::layers::nt_xent(one, other, batch, model, 0.5);
/// assert_eq!(loss.shape().to_string(), "[batch:4]");
/// ```
#[track_caller]
pub fn nt_xent<'g>(
    one: Tensor<'g>,
    other: Tensor<'g>,
    batch: Dimension,
    dim: Dimension,
    temperature: f64,
) -> Tensor<'g> {
    let _layer = one.graph().for_layer("nt_xent");
    let _caller = one.graph().for_caller();
    if let Some(poisoned) = refused("nt_xent", ("a view", one), &[("the other view", other)]) {
        return poisoned;
    }
    let fit = Fit::new().exactly("the other view", other, &one.shape());
    let fit = fit.has("a view", one, batch).has("a view", one, dim);
    let fit =
        fit.and(one, || (batch == dim).then(|| format!("{dim} is the batch and its vectors' dim")));
    if let Some(poisoned) = fit.refused("nt_xent", one) {
        return poisoned;
    }
    let problem = format!("a temperature is positive, not {temperature}");
    let legal = temperature > 0.0 && temperature.is_finite();
    if let Some(poisoned) = out_of_range("nt_xent", one, &problem, legal) {
        return poisoned;
    }
    let there = apart(&one.shape(), batch, "other");
    let [one, other] = [one, other].map(|view| unit(view, dim));
    let [ones, others] = [one, other].map(|view| crate::rename(view, batch, there.name.as_str()));
    let logits = |x, y| crate::einsum::contract(x, &[y], [dim]) * (1.0 / temperature);
    let positions = |dim| crate::range(one.graph(), dim, DType::I32);
    let itself = equal(positions(batch), positions(there));
    let right = logits(one, other);
    let loss = |own, owns, others| {
        let beside = logits(own, owns);
        let beside = select(itself, ITSELF, beside);
        let all = crate::concat(beside, &[logits(own, others)], there.name);
        logsumexp(all, there.resized(2 * there.size)) - right
    };
    (loss(one, ones, others) + loss(other, others, ones)) * 0.5
}
