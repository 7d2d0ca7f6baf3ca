//! Metrics of steps whose batch is computed in parts.

use super::common::scratch;
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Remainder};
use mesh_optimize::training::{MetricsFile, Trainer};
use mesh_optimize::{AdamWeightDecay, Optimizer, compute_gradients, microbatches_with_metrics};
use ndarray::{Array1, Array2};
use std::collections::BTreeMap;

const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("b:2", "batch:b"),
    ("b:2", "width:b"),
    ("b:2;m:2", "batch:b;params/*:m;slots/*:b"),
];

/// Means of f32 over a batch, and over parts of it, differ in the order of sums; through ten steps of
/// Adam.
const TOLERANCE: f64 = 1e-4;

/// The metrics of ten steps of a classifier, whose batch of 8 is computed in `parts`.
fn metrics(parts: usize, (mesh, layout): (&str, &str)) -> Vec<BTreeMap<String, f64>> {
    let g = mesh_ops::graph();
    let (batch, width, classes) = (dim("batch", 8), dim("width", 4), dim("classes", 4));
    let x = g.input("x", [batch, width], F32);
    let y = g.input("y", [batch], I32);
    let w = g.variable("w", [width, classes], F32, Initializer::ZEROS);
    let adam = AdamWeightDecay::new(0.05);
    let (loss, [right, size], grads) = if parts == 1 {
        let logits = x.einsum(&[w.value()], [batch, classes]);
        let loss = logits.softmax_cross_entropy(y, classes).mean();
        let right = logits.argmax(classes).equal(y).cast(F32).mean();
        (loss, [right, logits.square().mean()], compute_gradients(loss, &[]))
    } else {
        microbatches_with_metrics(&g, batch, parts, &[x, y], |part| {
            let rows = part[1].shape().iter().next().unwrap();
            let logits = part[0].einsum(&[w.value()], [rows, classes]);
            let loss = logits.softmax_cross_entropy(part[1], classes).mean();
            let right = logits.argmax(classes).equal(part[1]).cast(F32).mean();
            (loss, [right, logits.square().mean()])
        })
    };
    g.function("train", [x, y], [loss, right, size], adam.apply_grads(&grads));
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let x = Array2::from_shape_fn((24, 4), |(i, j)| ((i * 7 + j * 3) as f32).sin());
    let y = Array1::from_shape_fn(24, |i| (i % 4) as i32);
    let data = Dataset::from_arrays([("x", x.into()), ("y", y.into())]).unwrap();
    let folder =
        scratch(&format!("microbatches-{parts}-{}", layout.replace([':', ';', '/', '*'], "")));
    let data = data.shuffle(24, 1).unwrap().batch(8, Remainder::Drop).unwrap();
    Trainer::new(&mut session, "train", data)
        .quiet()
        .steps(10)
        .metric_names(["loss", "right", "size"])
        .watch(MetricsFile::create(&folder.join("metrics")).unwrap())
        .run()
        .unwrap();
    let text = std::fs::read_to_string(folder.join("metrics")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn metrics_of_parts_are_those_of_the_batch() {
    let whole = metrics(1, ("", ""));
    assert_eq!(whole.len(), 10);
    assert!(whole.iter().any(|step| step["right"] > 0.0 && step["right"] < 1.0), "{whole:?}");
    for parts in [2, 4] {
        for &layout in LAYOUTS {
            for (found, want) in metrics(parts, layout).iter().zip(&whole) {
                assert!(found.keys().eq(want.keys()));
                for (name, value) in found {
                    let off = (value - want[name]).abs();
                    assert!(
                        off <= TOLERANCE * want[name].abs().max(1.0),
                        "{parts} {layout:?} {name}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_no_metric_is_refused() {
    type Metric = for<'g> fn(Tensor<'g>) -> Tensor<'g>;
    let table: [(Metric, &str); 2] = [
        (|x| x.cast(I32).sum_all(), "a metric is of floats"),
        (|x| x.square(), "a mean over the examples"),
    ];
    for (metric, words) in table {
        let g = mesh_ops::graph();
        let batch = dim("batch", 8);
        let x = g.input("x", [batch], F32);
        let w = g.variable("w", [], F32, Initializer::ONES);
        let (_, [metric], _) = microbatches_with_metrics(&g, batch, 2, &[x], |part| {
            ((part[0] * w.value()).mean(), [metric(part[0])])
        });
        assert!(metric.is_poisoned());
        let report = g.check().unwrap_err().to_string();
        assert!(report.contains(words) && report.contains("microbatches.rs"), "{report}");
    }
}
