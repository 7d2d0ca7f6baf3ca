//! Metrics over a data set are those of all its examples at once, whatever the batches and the layout.

use super::common::Seen;
use mesh_ops::metrics::{self, Counted, Metric};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Remainder};
use mesh_optimize::training::{Evaluation, Every, Metrics, Trainer};
use mesh_optimize::{Optimizer, Sgd};
use ndarray::{Array1, Array2};

const EXAMPLES: usize = 24;

/// Sums of f32 in other orders.
const TOLERANCE: f64 = 1e-5;

fn examples() -> Dataset {
    let wave = |i: usize, j: usize| ((3 * i + 5 * j) as f32).sin();
    let scores = Array2::from_shape_fn((EXAMPLES, 4), |(i, j)| wave(i, j));
    let labels = Array1::from_iter((0..EXAMPLES).map(|i| (i * i % 4) as i32));
    // The last three only fill the data set up.
    let weights = Array1::from_iter((0..EXAMPLES).map(|i| if i < 21 { 1f32 } else { 0.0 }));
    let arrays = [("x", scores.into()), ("label", labels.into()), ("weight", weights.into())];
    Dataset::from_arrays(arrays).unwrap()
}

/// Every metric, of logits and labels with weights.
fn declared<'g>(
    g: &'g Graph,
    logits: Tensor<'g>,
    feeds: &[Tensor<'g>],
    classes: Dimension,
) -> Evaluation {
    let [x, label, weight] = [feeds[0], feeds[1], feeds[2]];
    let weights = Some(weight);
    let loss = logits.softmax_cross_entropy(label, classes);
    let predicted = logits.argmax(classes);
    let counted = Counted {
        found: predicted.one_hot(classes, Bool),
        there: label.one_hot(classes, Bool),
        kept: &[classes],
        weights,
    };
    let size = x.mean_over([classes]);
    let target = label.cast(F32);
    let all: Vec<(&str, Metric<'g>)> = vec![
        ("accuracy", metrics::accuracy(logits, label, classes, weights)),
        ("top_2", metrics::top_k_accuracy(logits, label, classes, 2, weights)),
        ("confusion", metrics::confusion_matrix(predicted, label, classes, weights)),
        ("precision", metrics::precision(&counted)),
        ("recall", metrics::recall(&counted)),
        ("f1", metrics::f1_score(&counted)),
        ("iou", metrics::intersection_over_union(&counted)),
        ("auc", metrics::auc(size.sigmoid(), label.greater(1), dim("bins", 16), weights)),
        ("loss", metrics::average(loss, weights)),
        ("rms", metrics::root_mean_square(size - target, weights)),
        ("perplexity", metrics::perplexity(loss, weights)),
        ("r2", metrics::r2_score(size, target, weights)),
    ];
    Evaluation::declare(g, "evaluate", feeds, &all)
}

/// The metrics of two runs over all examples in batches of this size, the second of which is returned.
fn evaluated(size: usize, mesh: &str, layout: &str) -> Metrics {
    let g = mesh_ops::graph();
    let (batch, classes) = (dim("batch", size), dim("classes", 4));
    let feeds = [
        g.input("x", [batch, classes], F32),
        g.input("label", [batch], I32),
        g.input("weight", [batch], F32),
    ];
    let evaluation = declared(&g, feeds[0], &feeds, classes);
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    session.set_replica_check(true).unwrap();
    let data = examples().batch(size, Remainder::Drop).unwrap();
    let first = evaluation.run(&mut session, &data).unwrap();
    let second = evaluation.run(&mut session, &data).unwrap();
    assert_eq!(first, second, "nothing is left of the first run");
    second
}

#[test]
fn metrics_of_batches_are_those_of_all_examples() {
    let whole = evaluated(EXAMPLES, "", "");
    assert_eq!(whole.iter().count(), 7 + 16 + 4 * 4);
    assert_eq!(
        whole.iter().filter(|(name, _)| name.starts_with("confusion")).map(|(_, x)| x).sum::<f64>(),
        21.0
    );
    for (size, mesh, layout) in [
        (6, "", ""),
        (4, "a:2", "batch:a"),
        (8, "a:2;b:2", "batch:a;classes:b"),
        (4, "b:4", "bins:b"),
    ] {
        let parts = evaluated(size, mesh, layout);
        for ((name, want), (same, got)) in whole.iter().zip(parts.iter()) {
            let near = (got - want).abs() <= TOLERANCE * want.abs().max(1.0);
            assert!(name == same && near, "{name}, {layout}: {got} {want}");
        }
    }
}

#[test]
fn trainers_tell_of_evaluations() {
    let g = mesh_ops::graph();
    let (batch, classes) = (dim("batch", 8), dim("classes", 4));
    let feeds = [
        g.input("x", [batch, classes], F32),
        g.input("label", [batch], I32),
        g.input("weight", [batch], F32),
    ];
    let logits = feeds[0].dense(classes, "logits");
    let loss = (logits.softmax_cross_entropy(feeds[1], classes) * feeds[2]).mean();
    g.function("train", feeds, [loss], Sgd::new(0.1).minimize(loss));
    let weights = Some(feeds[2]);
    let accuracy = metrics::accuracy(logits, feeds[1], classes, weights);
    let evaluation = Evaluation::declare(&g, "test", &feeds, &[("accuracy", accuracy)]);
    let module = g.lower(&"a:2".parse().unwrap(), &"batch:a".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let data = examples().batch(8, Remainder::Drop).unwrap();
    let seen = Seen::default();
    let outcome = Trainer::new(&mut session, "train", data.clone())
        .epochs(2)
        .evaluate(Every::Epochs(1), |session, _| evaluation.run(session, &data))
        .quiet()
        .watch(seen.clone())
        .run()
        .unwrap();
    let told = seen.lines().into_iter().filter(|line| line.starts_with("evaluation")).count();
    assert_eq!(told, 2);
    let share = outcome.evaluation.unwrap().get("accuracy").unwrap() * 21.0;
    assert!((share - share.round()).abs() < 1e-4, "{share} of 21");
}
