//! One graph for each metric.

use super::{Entry, case, f32s, input, made};
use mesh_ops::metrics::*;
use mesh_ops::prelude::*;

/// A metric of logits and labels.
fn of_logits(name: &str, metric: for<'g> fn(Tensor<'g>, Tensor<'g>) -> Metric<'g>) -> Entry {
    case(name, name, move |g| {
        let (logits, label) = (f32s(g, "logits", "p:4;classes:6"), input(g, "label", "p:4", I32));
        made([logits, label], [metric(logits, label).value()])
    })
}

/// A metric of what is found and there.
fn of_counts(name: &str, metric: for<'g> fn(&Counted<'_, 'g>) -> Metric<'g>) -> Entry {
    case(name, name, move |g| {
        let [found, there] = ["found", "there"].map(|name| input(g, name, "p:4;classes:6", Bool));
        let counted = Counted { found, there, kept: &[dim("classes", 6)], weights: None };
        made([found, there], [metric(&counted).value()])
    })
}

/// A metric of numbers with weights.
fn of_numbers(name: &str, metric: for<'g> fn(Tensor<'g>, Tensor<'g>) -> Metric<'g>) -> Entry {
    case(name, name, move |g| {
        let [x, y] = ["x", "y"].map(|name| f32s(g, name, "p:4"));
        made([x, y], [metric(x, y).value()])
    })
}

pub fn all() -> Vec<Entry> {
    fn classes() -> Dimension {
        dim("classes", 6)
    }
    vec![
        of_logits("accuracy", |x, label| accuracy(x, label, classes(), None)),
        of_logits("top_k_accuracy", |x, label| top_k_accuracy(x, label, classes(), 2, None)),
        case("confusion_matrix", "confusion_matrix", |g| {
            let [found, label] = ["found", "label"].map(|name| input(g, name, "p:4", I32));
            made([found, label], [confusion_matrix(found, label, classes(), None).value()])
        }),
        of_counts("precision", |counted| precision(counted)),
        of_counts("recall", |counted| recall(counted)),
        of_counts("f1_score", |counted| f1_score(counted)),
        of_counts("intersection_over_union", |counted| intersection_over_union(counted)),
        case("auc", "auc", |g| {
            let (score, label) = (f32s(g, "score", "p:4"), input(g, "label", "p:4", Bool));
            made([score, label], [auc(score, label, dim("bins", 4), None).value()])
        }),
        of_numbers("average", |x, w| average(x, Some(w))),
        of_numbers("root_mean_square", |x, w| root_mean_square(x, Some(w))),
        of_numbers("perplexity", |x, w| perplexity(x, Some(w))),
        of_numbers("r2_score", |x, target| r2_score(x, target, None)),
    ]
}
