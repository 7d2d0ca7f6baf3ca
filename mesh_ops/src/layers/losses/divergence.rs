//! The Kullback-Leibler divergence.

use super::refused;
use crate::elementwise::{equal, log, select};
use crate::layers::fit::Fit;
use crate::reduce::sum;
use crate::room::*;

/// `sum(p (log(p) - log_q))` along `classes`, per example: how far the predicted distribution, given by its
/// logarithms, is from the target `p` (torch's `kl_div`, summed over classes). A class of probability 0 adds
/// nothing, whatever is predicted for it, and has no gradient. Targets have no dims but those of the
/// predictions.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let (x, p) = (g.input("x", [batch, classes], F32), g.input("p", [batch, classes], F32));
/// let loss = mesh_ops::layers::kl_divergence(x.log_softmax(classes), p, classes);
/// assert_eq!(loss.shape().to_string(), "[batch:4]");
/// ```
#[track_caller]
pub fn kl_divergence<'g>(
    log_predictions: Tensor<'g>,
    targets: Tensor<'g>,
    classes: Dimension,
) -> Tensor<'g> {
    const NAME: &str = "kl_divergence";
    let x = log_predictions;
    let _layer = x.graph().for_layer(NAME);
    if let Some(poisoned) = refused(NAME, ("log-predictions", x), &[("targets", targets)]) {
        return poisoned;
    }
    let fit = Fit::new().has("log-predictions", x, classes).has("targets", targets, classes);
    if let Some(poisoned) = fit.refused(NAME, x) {
        return poisoned;
    }
    let none = equal(targets, 0.0);
    let safe = select(none, 1.0, targets);
    let apart = safe * (log(safe) - select(none, 0.0, x));
    sum(select(none, 0.0, apart), [classes])
}
