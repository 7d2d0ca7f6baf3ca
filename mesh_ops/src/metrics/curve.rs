//! The area under a curve, by bins.

use super::{Metric, ratio, total, weighted, weights_fit};
use crate::cumsum::{Cumulative, cumsum_with};
use crate::elementwise::{cast, clip, equal, floor, logical_not};
use crate::layers::fit::Fit;
use crate::reduce::sum_onto;
use crate::room::*;

/// The area under the receiver's operating characteristic: how likely the score of an example that is true (`labels`,
/// bool) is above that of one that is not; equal scores count half. Scores between 0 and 1 (others count as the
/// nearer bound) are sorted into as many bins of equal width as `bins` has positions, and those of one bin count as
/// equal: the result is that of scores rounded to bins, exactly, over any number of batches. 0 if all labels are equal.
/// Labels have the dims of the scores.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::auc;
/// # let g = mesh_ops::graph();
/// let batch = dim("batch", 4);
/// let (score, label) = (g.input("score", [batch], F32), g.input("label", [batch], Bool));
/// assert!(auc(score.sigmoid(), label, dim("bins", 200), None).value().shape().is_scalar());
/// ```
#[track_caller]
pub fn auc<'g>(
    scores: Tensor<'g>,
    labels: Tensor<'g>,
    bins: Dimension,
    weights: Option<Tensor<'g>>,
) -> Metric<'g> {
    let _layer = scores.graph().for_layer("auc");
    let _caller = scores.graph().for_caller();
    let shape = scores.shape();
    let fit = Fit::new().floats("scores", scores).exactly("labels", labels, &shape);
    let fit = fit.and(labels, || {
        let problem = || format!("labels are bool, and {labels:?} is of {}", labels.dtype());
        (labels.dtype() != DType::Bool).then(problem)
    });
    let fit = fit.and(scores, || {
        let has = shape.contains(bins.name);
        has.then(|| format!("scores {scores:?} must not have the dim {bins}"))
    });
    if let Some(poisoned) = weights_fit(fit, weights, &shape).refused("auc", scores) {
        return Metric::poisoned(poisoned);
    }
    let wide = cast(scores, scores.dtype().reduction());
    let last = bins.size as f64 - 1.0;
    let bin = cast(clip(floor(wide * bins.size as f64), 0.0, last), DType::I32);
    let here = equal(bin, crate::range(scores.graph(), bins, DType::I32));
    let onto = Shape::new([bins]).unwrap_or_default();
    let counted = |labels| {
        let counts = crate::elementwise::logical_and(here, labels);
        sum_onto(weighted(counts, weights), &onto)
    };
    let sums = [("true", counted(labels)), ("false", counted(logical_not(labels)))];
    Metric::new(sums, move |sums| {
        let below = cumsum_with(sums[1], bins, Cumulative { exclusive: true, reverse: false });
        let above = total(sums[0] * (below + sums[1] * 0.5));
        ratio(above, total(sums[0]) * total(sums[1]))
    })
}
