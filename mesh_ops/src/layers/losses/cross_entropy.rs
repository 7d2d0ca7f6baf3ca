//! Softmax cross-entropy with integer or soft targets.

use crate::elementwise::{equal, exp, log, select, square};
use crate::layers::fit::Fit;
use crate::layers::softmax::shifted;
use crate::reduce::{mean, sum};
use crate::room::*;

/// Options of the softmax cross-entropy.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::CrossEntropy;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let (logits, label) = (g.input("logits", [batch, classes], F32), g.input("label", [batch], I32));
/// let options = CrossEntropy { z_loss: 1e-4, label_smoothing: 0.1 };
/// assert_eq!(options.apply(logits, label, classes).shape().to_string(), "[batch:4]");
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CrossEntropy {
    /// This times `logsumexp(logits)^2` is added: it keeps logits from drifting.
    pub z_loss: f64,
    /// This part of the targets is spread evenly over all classes.
    pub label_smoothing: f64,
}

impl CrossEntropy {
    /// `-sum(targets * log_softmax(logits))` along `classes`, per example, with targets smoothed and
    /// the square of the log-normaliser added; see [`softmax_cross_entropy`].
    #[track_caller]
    pub fn apply<'g>(
        &self,
        logits: Tensor<'g>,
        targets: Tensor<'g>,
        classes: Dimension,
    ) -> Tensor<'g> {
        let _layer = logits.graph().for_layer("softmax_cross_entropy");
        if let Some(poisoned) = self.refused(logits, targets, classes) {
            return poisoned;
        }
        let (shifted, greatest) = shifted(logits, classes);
        let normaliser = log(sum(exp(shifted), [classes]));
        let keep = 1.0 - self.label_smoothing;
        let (mut loss, total) = if targets.dtype().is_float() {
            let total = sum(targets, targets.shape().get(classes.name));
            (normaliser * total - sum(targets * shifted, [classes]), Some(total))
        } else {
            let index = crate::range(logits.graph(), classes, DType::I32);
            let hit = select(equal(targets, index), shifted, logits.scalar_like(0.0));
            let target = sum(hit, [classes]);
            (normaliser - target, None)
        };
        if self.label_smoothing != 0.0 {
            let mut even = normaliser - mean(shifted, [classes]);
            if let Some(total) = total {
                even = even * total;
            }
            loss = loss * keep + even * self.label_smoothing;
        }
        if self.z_loss != 0.0 {
            loss = loss + square(normaliser + greatest) * self.z_loss;
        }
        loss
    }

    #[track_caller]
    fn refused<'g>(
        &self,
        logits: Tensor<'g>,
        targets: Tensor<'g>,
        classes: Dimension,
    ) -> Option<Tensor<'g>> {
        let fit = Fit::new().floats("logits", logits).has("logits", logits, classes);
        let has = targets.shape().contains(classes.name);
        let fit = if targets.dtype().is_float() {
            fit.and(targets, || {
                let problem = format!(
                    "targets of floats are weights of the classes, and {targets:?} has no dim \
                     {classes}; cast class numbers to i32"
                );
                (!has).then_some(problem)
            })
            .like("targets", targets, logits)
        } else {
            fit.integers("targets without weights", targets).and(targets, || {
                let problem = format!(
                    "targets of i32 are class numbers, without the dim {classes} that {targets:?} \
                     has; cast weights, as of a one-hot, to {}",
                    logits.dtype()
                );
                has.then_some(problem)
            })
        };
        fit.among("targets", targets, &logits.shape()).refused("softmax_cross_entropy", logits)
    }
}

/// `-sum(targets * log_softmax(logits))` along `classes`, per example.
///
/// `targets` are class numbers (i32, without the dim `classes`) or weights (floats, with it); they
/// have no dims but those of the logits. A class number out of range counts as no target: its loss is `logsumexp(logits) - max(logits)`.
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
    CrossEntropy::default().apply(logits, targets, classes)
}
