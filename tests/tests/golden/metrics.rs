//! Metrics against scikit-learn.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::layers::{absolute_error, squared_error};
use mesh_ops::metrics::*;
use mesh_ops::prelude::*;

fn float<'g>(i: &Given<'g>, n: usize) -> Tensor<'g> {
    i.x[n].cast(i.float)
}

fn of_classes<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    let (found, label, classes) = (i.x[0], i.x[1], dim("classes", i.size("classes")));
    let weights = Some(float(i, 2));
    let [found_in, there] = [found, label].map(|x| x.one_hot(classes, Bool));
    let counted = Counted { found: found_in, there, kept: &[classes], weights };
    let micro = Counted { kept: &[], ..counted };
    let all = [
        confusion_matrix(found, label, classes, weights),
        precision(&counted),
        recall(&counted),
        f1_score(&counted),
        intersection_over_union(&counted),
        f1_score(&micro),
    ];
    all.iter().map(Metric::value).collect()
}

/// Builders of `sklearn_metrics.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("accuracy", |i| {
        let (logits, label, classes) = (float(i, 0), i.x[1], i.dim("classes"));
        let weights = Some(float(i, 2));
        let top = top_k_accuracy(logits, label, classes, i.size("k"), weights);
        vec![accuracy(logits, label, classes, weights).value(), top.value()]
            .into_iter()
            .map(|value| value.cast(i.float))
            .collect()
    }),
    ("of_classes", of_classes),
    ("of_no_classes", of_classes),
    ("auc", |i| {
        // The middles of eighths.
        let score = (float(i, 0) + 0.5) * (1.0 / 8.0);
        let label = i.x[1].equal(i.graph.scalar(1.0, I32));
        vec![auc(score, label, dim("bins", 8), Some(float(i, 2))).value()]
    }),
    ("of_numbers", |i| {
        let [x, target] = [0, 1].map(|n| float(i, n) * (1.0 / 64.0));
        let weights = Some(float(i, 2));
        let all = [
            average(squared_error(x, target), weights),
            average(absolute_error(x, target), weights),
            root_mean_square(x - target, weights),
            r2_score(x, target, weights),
        ];
        all.iter().map(Metric::value).collect()
    }),
];
