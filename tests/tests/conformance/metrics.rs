//! Metrics under the legal layouts, counted example by example.

use crate::conform;
use mesh_core::graph::TensorType;
use mesh_ops::metrics::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{At, Case, Dense, Fill};

const AXIS: &[&str] = &["m:2"];
const GRIDS: &[&str] = &["m:2", "m:2;n:2"];

/// A number that is no class, of which four times as much is 0 in i32.
const FAR: f64 = (1 << 30) as f64;

/// The places of a tensor of examples.
fn examples(dims: &str) -> Vec<At> {
    At::all(&dims.parse().unwrap())
}

/// A number of the whole input.
fn number(of: fn(&[&Dense]) -> f64) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    move |x, ty| Dense::filled(ty.clone(), of(x))
}

/// The mean of what is taken from each place of `p:4;q:6`, with weights of the last input.
fn weighted(x: &[&Dense], of: impl Fn(&At) -> f64) -> f64 {
    let weight = x[x.len() - 1];
    let places = examples("p:4;q:6");
    let sum: f64 = places.iter().map(|at| weight.at(at) * of(at)).sum();
    sum / places.iter().map(|at| weight.at(at)).sum::<f64>()
}

fn weights(case: Case, dims: &str) -> Case {
    case.input("weight", dims, F32, Fill::Values(vec![1.0, 0.0, 0.5, 2.0, 1.0]))
}

#[test]
fn metrics_of_numbers() {
    let averaged = |name: &str, metric: for<'g> fn(Tensor<'g>, Tensor<'g>) -> Metric<'g>| {
        Case::new(name, move |_, x| metric(x[0], x[1]).value()).normal("x", "p:4;q:6", F32)
    };
    let of_two = |case: Case| {
        let case = case.normal("x", "p:4;q:6", F32).normal("target", "p:4;q:6", F32);
        weights(case, "p:4;q:6").meshes(AXIS)
    };
    conform(
        "metrics_of_numbers",
        vec![
            weights(averaged("average", |x, w| average(x, Some(w))), "p:4")
                .computes(number(|x| weighted(x, |at| x[0].at(at))))
                .meshes(GRIDS),
            weights(averaged("root_mean_square", |x, w| root_mean_square(x, Some(w))), "q:6")
                .computes(number(|x| weighted(x, |at| x[0].at(at).powi(2)).sqrt()))
                .meshes(AXIS),
            weights(averaged("perplexity", |x, w| perplexity(x, Some(w))), "p:4;q:6")
                .computes(number(|x| weighted(x, |at| x[0].at(at)).exp()))
                .meshes(AXIS),
            of_two(Case::new("r2_score", |_, x| r2_score(x[0], x[1], Some(x[2])).value()))
                .computes(number(|x| {
                    let mean = weighted(x, |at| x[1].at(at));
                    let missed = weighted(x, |at| (x[1].at(at) - x[0].at(at)).powi(2));
                    1.0 - missed / weighted(x, |at| (x[1].at(at) - mean).powi(2))
                })),
        ],
    );
}

/// How many classes stand before that of the label, which is one of them; NaN stands before numbers.
fn rank(logits: &Dense, label: usize, at: &At) -> usize {
    let key = |class: usize| {
        let logit = logits.at(&at.with("classes", class));
        (logit.is_nan(), if logit.is_nan() { 0.0 } else { logit })
    };
    let before =
        |other: &usize| key(*other) > key(label) || (key(*other) == key(label) && *other < label);
    (0..4).filter(before).count()
}

/// The weighted share of examples `p:6` whose label is among the first `k`.
fn among(x: &[&Dense], k: usize) -> f64 {
    let [logits, label, weight] = [x[0], x[1], x[2]];
    let right = |at: &&At| match label.at(at) {
        class if (0.0..4.0).contains(&class) => rank(logits, class as usize, at) < k,
        _ => false,
    };
    let all = examples("p:6");
    let sum = |places: Vec<&At>| places.into_iter().map(|at| weight.at(at)).sum::<f64>();
    sum(all.iter().filter(right).collect()) / sum(all.iter().collect())
}

#[test]
fn metrics_of_classes() {
    let classes = dim("classes", 4);
    let ties = || Fill::Integers(-1, 1);
    let nan = || Fill::Values(vec![f64::NAN, 1.0, 0.0, f64::NAN, -1.0, 2.0, f64::NAN]);
    let labels = || Fill::Values(vec![0.0, 3.0, 1.0, 2.0, 4.0]);
    let of = |case: Case, logits: Fill| {
        let case = case.input("logits", "p:6;classes:4", F32, logits);
        weights(case.input("label", "p:6", I32, labels()), "p:6").without_gradient().meshes(GRIDS)
    };
    let first = |name: &str, logits: Fill| {
        let case = Case::new(name, move |_, x| accuracy(x[0], x[1], classes, Some(x[2])).value());
        of(case, logits).computes(number(|x| among(x, 1)))
    };
    let first_two = |name: &str, logits: Fill| {
        let case =
            Case::new(name, move |_, x| top_k_accuracy(x[0], x[1], classes, 2, Some(x[2])).value());
        of(case, logits).computes(number(|x| among(x, 2)))
    };
    conform(
        "metrics_of_classes",
        vec![
            first("accuracy", ties()),
            first_two("top_k_accuracy", ties()),
            first("accuracy: NaN", nan()),
            first_two("top_k_accuracy: NaN", nan()),
            weights(
                Case::new("confusion_matrix", move |_, x| {
                    confusion_matrix(x[0], x[1], classes, Some(x[2])).value()
                })
                .input("found", "p:6", I32, Fill::Integers(-1, 4))
                .input(
                    "label",
                    "p:6",
                    I32,
                    Fill::Values(vec![0.0, 3.0, FAR, 1.0, 2.0, 4.0]),
                ),
                "p:6",
            )
            .computes(|x, ty| {
                Dense::each(ty, |pair| {
                    let pair = [pair.along("classes_predicted"), pair.along("classes")];
                    let is = |at: &&At| [x[0], x[1]].map(|x| x.at(at)) == pair.map(|i| i as f64);
                    examples("p:6").iter().filter(is).map(|at| x[2].at(at)).sum()
                })
            })
            .without_gradient()
            .meshes(GRIDS),
        ],
    );
}

/// The weights of places `p:6` at this class that are found, there and both.
fn counts(x: &[&Dense], at: &At) -> [f64; 3] {
    let places = (0..6).map(|p| at.with("p", p));
    let here = places.map(|at| {
        [x[0].at(&at), x[1].at(&at), x[0].at(&at) * x[1].at(&at)]
            .map(|counts| counts * x[2].at(&at))
    });
    here.fold([0.0; 3], |sums, more| std::array::from_fn(|i| sums[i] + more[i]))
}

#[test]
fn metrics_of_counts() {
    type Of = for<'g> fn(&Counted<'_, 'g>) -> Metric<'g>;
    let case = |name: &str, kept: &'static [usize], metric: Of, formula: fn([f64; 3]) -> f64| {
        let case = Case::new(name, move |_, x| {
            let all = [dim("classes", 4)];
            let kept: Vec<_> = kept.iter().map(|&i| all[i]).collect();
            let (found, there, weights) = (x[0], x[1], Some(x[2]));
            metric(&Counted { found, there, kept: &kept, weights }).value()
        });
        let case = case.computes(move |x, ty| {
            Dense::each(ty, |at| {
                let of_class = |class| counts(x, &at.with("classes", class));
                let classes = if kept.is_empty() {
                    0..4
                } else {
                    at.along("classes")..at.along("classes") + 1
                };
                let sums = classes.map(of_class);
                let sums =
                    sums.fold([0.0; 3], |sums, more| std::array::from_fn(|i| sums[i] + more[i]));
                formula(sums)
            })
        });
        let case = case.bools("found", "p:6;classes:4").bools("there", "p:6;classes:4");
        weights(case, "p:6").without_gradient().meshes(AXIS)
    };
    fn share(a: f64, b: f64) -> f64 {
        if b == 0.0 { 0.0 } else { a / b }
    }
    conform(
        "metrics_of_counts",
        vec![
            case("precision", &[0], |x| precision(x), |[found, _, both]| share(both, found)),
            case("recall", &[0], |x| recall(x), |[_, there, both]| share(both, there)),
            case(
                "f1_score",
                &[],
                |x| f1_score(x),
                |[found, there, both]| {
                    let (precision, recall) = (share(both, found), share(both, there));
                    share(2.0 * precision * recall, precision + recall)
                },
            )
            .meshes(GRIDS),
            case(
                "intersection_over_union",
                &[0],
                |x| intersection_over_union(x),
                |[found, there, both]| share(both, found + there - both),
            ),
        ],
    );
}

#[test]
fn metrics_of_curves() {
    conform(
        "metrics_of_curves",
        vec![
            weights(
                Case::new("auc", |_, x| auc(x[0], x[1], dim("bins", 4), Some(x[2])).value())
                    .input("score", "p:6", F32, Fill::Between(-0.25, 1.25))
                    .bools("label", "p:6"),
                "p:6",
            )
            // Pairs of a true and a false example: the share of those in order.
            .computes(number(|x| {
                let bin = |at: &At| (x[0].at(at) * 4.0).floor().clamp(0.0, 3.0);
                let (mut above, mut all) = (0.0, 0.0);
                for is in examples("p:6").iter().filter(|at| x[1].at(at) != 0.0) {
                    for not in examples("p:6").iter().filter(|at| x[1].at(at) == 0.0) {
                        let weight = x[2].at(is) * x[2].at(not);
                        let order = bin(is).partial_cmp(&bin(not)).unwrap() as i32;
                        above += weight * f64::from(order + 1) / 2.0;
                        all += weight;
                    }
                }
                above / all
            }))
            .without_gradient()
            .meshes(GRIDS),
        ],
    );
}
