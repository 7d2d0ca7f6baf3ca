//! Metrics of what is found and what is there: precision, recall and what is made of them.

use super::{Metric, ratio, weighted, weights_fit};
use crate::elementwise::logical_and;
use crate::layers::fit::Fit;
use crate::reduce::sum_onto;
use crate::room::*;

/// What is found and what is there, as bools of the same dims: counted over all dims but those `kept`.
///
/// Of two classes they are `score > threshold` and the label, with nothing kept. Of several classes they are
/// one-hot along the classes: with these kept there is a number for each class, else one for all examples and
/// classes together (the micro average); the mean of the numbers for each class is the macro average.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::{Counted, f1_score, intersection_over_union, precision, recall};
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 3));
/// let logits = g.input("logits", [batch, classes], F32);
/// let label = g.input("label", [batch], I32);
/// let counted = Counted {
///     found: logits.argmax(classes).one_hot(classes, Bool),
///     there: label.one_hot(classes, Bool),
///     kept: &[classes],
///     weights: None,
/// };
/// assert_eq!(precision(&counted).value().shape().to_string(), "[classes:3]");
/// let macro_f1 = f1_score(&counted).value().mean();
/// assert!(macro_f1.shape().is_scalar());
/// let micro = Counted { kept: &[], ..counted };
/// assert!(recall(&micro).value().shape().is_scalar());
/// assert!(intersection_over_union(&micro).value().shape().is_scalar());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a, 'g> {
    /// What a model says is there.
    pub found: Tensor<'g>,
    /// What is there.
    pub there: Tensor<'g>,
    /// Dims of which each index has a number of its own.
    pub kept: &'a [Dimension],
    /// How much each place counts; 1 without them.
    pub weights: Option<Tensor<'g>>,
}

impl<'g> Counted<'_, 'g> {
    /// How much is found, there, and both; in this order.
    #[track_caller]
    fn metric(
        &self,
        name: &'static str,
        formula: impl for<'a> Fn([Tensor<'a>; 3]) -> Tensor<'a> + 'static,
    ) -> Metric<'g> {
        let Self { found, there, kept, weights } = *self;
        let _layer = found.graph().for_layer(name);
        let _caller = found.graph().for_caller();
        let bools = |fit: Fit, what: &str, x: Tensor<'g>| {
            let problem = || format!("{what} is bool, and {x:?} is of {}", x.dtype());
            fit.and(x, || (x.dtype() != DType::Bool).then(problem))
        };
        let fit = bools(bools(Fit::new(), "what is found", found), "what is there", there);
        let fit = fit.exactly("what is there", there, &found.shape());
        let fit = kept.iter().fold(fit, |fit, dim| fit.has("what is found", found, *dim));
        let fit = weights_fit(fit, weights, &found.shape());
        if let Some(poisoned) = fit.refused(name, found) {
            return Metric::poisoned(poisoned);
        }
        let onto = Shape::new(kept.iter().copied()).unwrap_or_default();
        let counted = |x| sum_onto(weighted(x, weights), &onto);
        let both = logical_and(found, there);
        let sums = [("found", counted(found)), ("there", counted(there)), ("both", counted(both))];
        Metric::new(sums, move |sums| formula([sums[0], sums[1], sums[2]]))
    }
}

/// How much of what is found is there: 0 if nothing is found.
///
/// See [`Counted`] for an example.
#[track_caller]
pub fn precision<'g>(counted: &Counted<'_, 'g>) -> Metric<'g> {
    counted.metric("precision", |[found, _, both]| ratio(both, found))
}

/// How much of what is there is found: 0 if nothing is there.
///
/// See [`Counted`] for an example.
#[track_caller]
pub fn recall<'g>(counted: &Counted<'_, 'g>) -> Metric<'g> {
    counted.metric("recall", |[_, there, both]| ratio(both, there))
}

/// The harmonic mean of precision and recall, `2 both / (found + there)`: 0 if nothing is found nor there. (As a
/// coefficient of sets it is Dice's.)
///
/// See [`Counted`] for an example.
#[track_caller]
pub fn f1_score<'g>(counted: &Counted<'_, 'g>) -> Metric<'g> {
    counted.metric("f1_score", |[found, there, both]| ratio(both * 2.0, found + there))
}

/// What is both found and there over what is either (Jaccard's index): 0 if nothing is.
///
/// See [`Counted`] for an example.
#[track_caller]
pub fn intersection_over_union<'g>(counted: &Counted<'_, 'g>) -> Metric<'g> {
    counted
        .metric("intersection_over_union", |[found, there, both]| ratio(both, found + there - both))
}
