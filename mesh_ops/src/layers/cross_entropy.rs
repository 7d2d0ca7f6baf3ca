//! Softmax cross-entropy with integer or soft targets.

use super::softmax::shifted;
use crate::elementwise::{equal, exp, log, select};
use crate::reduce::sum;
use crate::room::*;

/// `-sum(targets * log_softmax(logits))` along `classes`, per example.
///
/// `targets` are class numbers (i32, without the dim `classes`) or weights (floats, with it). A
/// class number out of range counts as no target: its loss is `logsumexp(logits) - max(logits)`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let (logits, label) = (g.input("logits", [batch, classes], F32), g.input("label", [batch], I32));
/// let loss = mesh_ops::layers::softmax_cross_entropy(logits, label, classes);
/// assert_eq!(loss.shape().to_string(), "[batch:4]");
/// ```
#[track_caller]
pub fn softmax_cross_entropy<'g>(
    logits: Tensor<'g>,
    targets: Tensor<'g>,
    classes: Dimension,
) -> Tensor<'g> {
    let (shifted, _) = shifted(logits, classes);
    let normaliser = log(sum(exp(shifted), [classes]));
    if targets.dtype().is_float() {
        let total = sum(targets, targets.shape().get(classes.name));
        return normaliser * total - sum(targets * shifted, [classes]);
    }
    let index = crate::range(logits.graph(), classes, DType::I32);
    let zero = logits.graph().scalar(0.0, logits.dtype());
    normaliser - sum(select(equal(targets, index), shifted, zero), [classes])
}
