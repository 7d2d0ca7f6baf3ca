//! Losses of probabilities of two classes, per element.

use super::{out_of_range, refused};
use crate::elementwise::{cast, equal, greater, log, maximum, powf, select, sigmoid, softplus};
use crate::room::*;

/// The least that the logarithm of a probability counts: torch's bound.
const LEAST_LOG: f64 = -100.0;

/// `-z log(s) - (1 - z) log(1 - s)` with `s = sigmoid(logits)` and targets `z`, per element, computed as
/// `x ((x > 0) - z) + log(1 + exp(-|x|))`, which does not overflow. Of an infinite logit it is infinite, or NaN where the
/// target is just what the logit says: 0 times infinity, as in optax. Targets have no dims but those of the logits.
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
    if let Some(poisoned) =
        refused("sigmoid_cross_entropy", ("logits", logits), &[("targets", targets)])
    {
        return poisoned;
    }
    let positive = greater(logits, 0);
    // Not by `abs`, whose slope at 0 is 0: both sides are one function.
    let below = select(positive, -logits, logits);
    logits * (cast(positive, logits.dtype()) - targets) + softplus(below)
}

/// `-z log(p) - (1 - z) log(1 - p)` of probabilities `p` and targets `z` between 0 and 1, per element, where
/// logarithms count as -100 at least, as in torch's `binary_cross_entropy`; the gradient is 0 beyond that.
/// [`sigmoid_cross_entropy`] of logits rounds less. Targets have no dims but those of the probabilities.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (p, targets) = (g.input("p", [batch], F32), g.input("z", [batch], F32));
/// assert_eq!(mesh_ops::layers::binary_cross_entropy(p, targets).shape(), p.shape());
/// ```
#[track_caller]
pub fn binary_cross_entropy<'g>(probabilities: Tensor<'g>, targets: Tensor<'g>) -> Tensor<'g> {
    const NAME: &str = "binary_cross_entropy";
    let _layer = probabilities.graph().for_layer(NAME);
    let given = ("probabilities", probabilities);
    if let Some(poisoned) = refused(NAME, given, &[("targets", targets)]) {
        return poisoned;
    }
    let (yes, no) = (bounded_log(probabilities), bounded_log(1.0 - probabilities));
    -(targets * yes + (1.0 - targets) * no)
}

/// The logarithm, at least -100; its gradient is 0 at 0.
#[track_caller]
fn bounded_log(p: Tensor<'_>) -> Tensor<'_> {
    let zero = equal(p, 0.0);
    let log = log(select(zero, 1.0, p));
    select(zero, LEAST_LOG, maximum(log, LEAST_LOG))
}

/// The sigmoid cross-entropy, less of what is predicted well: with `q` the probability that is given to the
/// wrong class, `q = sigmoid(-x) z + sigmoid(x) (1 - z)`, the loss is multiplied by `q^gamma`; and by `alpha`
/// for the class 1, `1 - alpha` for the class 0 (arXiv 1708.02002, equation 5). `gamma` is 0 or at least 1.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (logits, targets) = (g.input("x", [batch], F32), g.input("z", [batch], F32));
/// let loss = mesh_ops::layers::sigmoid_focal_loss(logits, targets, 0.25, 2.0);
/// assert_eq!(loss.shape(), logits.shape());
/// ```
#[track_caller]
pub fn sigmoid_focal_loss<'g>(
    logits: Tensor<'g>,
    targets: Tensor<'g>,
    alpha: f64,
    gamma: f64,
) -> Tensor<'g> {
    const NAME: &str = "sigmoid_focal_loss";
    let _layer = logits.graph().for_layer(NAME);
    if let Some(poisoned) = refused(NAME, ("logits", logits), &[("targets", targets)]) {
        return poisoned;
    }
    let legal = (0.0..=1.0).contains(&alpha) && (gamma == 0.0 || gamma >= 1.0);
    let problem =
        format!("alpha is between 0 and 1, gamma 0 or at least 1, not {alpha} and {gamma}");
    if let Some(poisoned) = out_of_range(NAME, logits, &problem, legal) {
        return poisoned;
    }
    let others = 1.0 - targets;
    let loss = sigmoid_cross_entropy(logits, targets) * (targets * alpha + others * (1.0 - alpha));
    if gamma == 0.0 {
        return loss;
    }
    let wrong = sigmoid(-logits) * targets + sigmoid(logits) * others;
    loss * powf(wrong, gamma)
}
