//! Metrics of predicted classes.

use super::{Metric, count, ratio, total, weighted, weights_fit};
use crate::elementwise::{
    cast, equal, greater, greater_equal, is_nan, less, logical_and, logical_not, logical_or, select,
};
use crate::layers::fit::Fit;
use crate::reduce::sum;
use crate::room::*;

/// What is wrong with logits and labels.
#[track_caller]
fn refused<'g>(
    op: &str,
    logits: Tensor<'g>,
    labels: Tensor<'g>,
    classes: Dimension,
    weights: Option<Tensor<'g>>,
) -> Option<Tensor<'g>> {
    let examples = logits.shape().without(&[classes.name]);
    let fit = Fit::new().floats("logits", logits).has("logits", logits, classes);
    let fit = fit.integers("labels", labels).exactly("labels", labels, &examples);
    weights_fit(fit, weights, &examples).refused(op, logits)
}

/// A share of examples.
#[track_caller]
fn share<'g>(right: Tensor<'g>, weights: Option<Tensor<'g>>, examples: &Shape) -> Metric<'g> {
    let sums =
        [("right", total(weighted(right, weights))), ("count", count(right, weights, examples))];
    Metric::new(sums, |sums| ratio(sums[0], sums[1]))
}

/// The share of examples whose label (i32) has the greatest logit along `classes`; of equal logits the first counts.
/// Labels have all dims of the logits but `classes`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::accuracy;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let logits = g.input("logits", [batch, classes], F32);
/// let (label, weight) = (g.input("label", [batch], I32), g.input("weight", [batch], F32));
/// let right = accuracy(logits, label, classes, Some(weight));
/// assert!(right.value().shape().is_scalar());
/// ```
#[track_caller]
pub fn accuracy<'g>(
    logits: Tensor<'g>,
    labels: Tensor<'g>,
    classes: Dimension,
    weights: Option<Tensor<'g>>,
) -> Metric<'g> {
    let _layer = logits.graph().for_layer("accuracy");
    let _caller = logits.graph().for_caller();
    if let Some(poisoned) = refused("accuracy", logits, labels, classes, weights) {
        return Metric::poisoned(poisoned);
    }
    let right = equal(crate::argmax(logits, classes), labels);
    share(right, weights, &labels.shape())
}

/// The share of examples whose label (i32) is among the `k` greatest logits along `classes`: fewer than `k`
/// classes are above it, or equal to it and before it. NaN is above all numbers, as in `torch.topk`. A label that is no
/// class is never among them.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::top_k_accuracy;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let logits = g.input("logits", [batch, classes], F32);
/// let label = g.input("label", [batch], I32);
/// assert!(top_k_accuracy(logits, label, classes, 5, None).value().shape().is_scalar());
/// ```
#[track_caller]
pub fn top_k_accuracy<'g>(
    logits: Tensor<'g>,
    labels: Tensor<'g>,
    classes: Dimension,
    k: usize,
    weights: Option<Tensor<'g>>,
) -> Metric<'g> {
    let _layer = logits.graph().for_layer("top_k_accuracy");
    let _caller = logits.graph().for_caller();
    if let Some(poisoned) = refused("top_k_accuracy", logits, labels, classes, weights) {
        return Metric::poisoned(poisoned);
    }
    let class = crate::range(logits.graph(), classes, DType::I32);
    let own = equal(labels, class);
    let own_logit = sum(select(own, logits, 0.0), [classes]);
    let [nan, own_nan] = [logits, own_logit].map(is_nan);
    let above = logical_or(greater(logits, own_logit), logical_and(nan, logical_not(own_nan)));
    let same = logical_or(equal(logits, own_logit), logical_and(nan, own_nan));
    let before = logical_or(above, logical_and(same, less(class, labels)));
    let number = |x| sum(cast(x, DType::I32), [classes]);
    let right = logical_and(less(number(before), k as f64), equal(number(own), 1.0));
    share(right, weights, &labels.shape())
}

/// How many examples of each class (along `classes`) were taken for which (along a dim of the same size named
/// `{classes}_predicted`). Predictions and labels are class numbers, i32, of the same dims; an example with a
/// number that is no class counts nowhere.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::confusion_matrix;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let [predicted, label] = ["predicted", "label"].map(|name| g.input(name, [batch], I32));
/// let matrix = confusion_matrix(predicted, label, classes, None).value();
/// assert_eq!(matrix.shape().to_string(), "[classes:10, classes_predicted:10]");
/// ```
#[track_caller]
pub fn confusion_matrix<'g>(
    predicted: Tensor<'g>,
    labels: Tensor<'g>,
    classes: Dimension,
    weights: Option<Tensor<'g>>,
) -> Metric<'g> {
    const NAME: &str = "confusion_matrix";
    let _layer = labels.graph().for_layer(NAME);
    let _caller = labels.graph().for_caller();
    let examples = labels.shape();
    let fit = Fit::new().integers("predictions", predicted).integers("labels", labels);
    let fit = fit.exactly("predictions", predicted, &examples);
    let fit = fit.and(labels, || {
        let has = examples.contains(classes.name);
        has.then(|| format!("labels {labels:?} are class numbers, without the dim {classes}"))
    });
    if let Some(poisoned) = weights_fit(fit, weights, &examples).refused(NAME, labels) {
        return Metric::poisoned(poisoned);
    }
    let there = apart(&examples, classes, "predicted");
    let counted = weighted(labels.graph().fill(1.0, &examples, DType::F32), weights);
    // A position for each pair of classes, if i32 has as many numbers.
    let pairs = classes.resized(classes.size.saturating_mul(classes.size));
    let matrix = if i32::try_from(pairs.size).is_ok() {
        in_pairs([labels, predicted], classes, pairs, counted)
    } else {
        in_rows([labels, predicted], classes, there, counted)
    };
    Metric::new([("examples", crate::reshape(matrix, [classes, there]))], |sums| sums[0])
}

/// How much is counted for each pair of a label and a prediction.
#[track_caller]
fn in_pairs<'g>(
    given @ [label, predicted]: [Tensor<'g>; 2],
    classes: Dimension,
    pairs: Dimension,
    counted: Tensor<'g>,
) -> Tensor<'g> {
    let count = classes.size as f64;
    let [label_fits, fits] = given.map(|x| logical_and(greater_equal(x, 0), less(x, count)));
    let pair = select(logical_and(label_fits, fits), label * count + predicted, -1);
    crate::scatter_add(counted, pair, pairs, [pairs])
}

/// As [`in_pairs`], in rows of which each label counts one.
#[track_caller]
fn in_rows<'g>(
    [label, predicted]: [Tensor<'g>; 2],
    classes: Dimension,
    there: Dimension,
    counted: Tensor<'g>,
) -> Tensor<'g> {
    let row = counted * crate::one_hot(predicted, there, counted.dtype());
    crate::scatter_add(row, label, classes, [classes, there])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn pairs_and_rows_count_alike() {
        let g = crate::graph();
        let (batch, classes) = (dim("batch", 7), dim("classes", 3));
        let given = ["label", "predicted"].map(|name| g.input(name, [batch], I32));
        let weight = g.input("weight", [batch], F32);
        let there = classes.renamed("there");
        let in_pairs = in_pairs(given, classes, classes.resized(9), weight);
        let in_rows = in_rows(given, classes, there, weight);
        let f = g.function("f", [given[0], given[1], weight], [in_pairs, in_rows], []);
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let label = ndarray::arr1(&[0, 2, 2, -1, 3, 1, 2]);
        let predicted = ndarray::arr1(&[0, 1, 1, 1, 1, 3, 0]);
        let weight = ndarray::arr1(&[1.0_f32, 0.5, 2.0, 1.0, 1.0, 1.0, 4.0]);
        let feeds = [label.view().into(), predicted.view().into(), weight.view().into()];
        let [pairs, rows] = session.call(&f, feeds).unwrap();
        let want = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 2.5, 0.0];
        assert_eq!(pairs.to_f64().as_slice().unwrap(), want);
        assert_eq!(rows.to_f64().as_slice().unwrap(), want);
    }

    #[test]
    fn more_pairs_than_numbers_are_legal() {
        let g = crate::graph();
        let (batch, classes) = (dim("batch", 4), dim("classes", 50_000));
        let given = ["predicted", "label"].map(|name| g.input(name, [batch], I32));
        let matrix = confusion_matrix(given[0], given[1], classes, None).value();
        assert_eq!(matrix.shape().size(), 2_500_000_000);
        g.check().unwrap();
    }
}
