//! Losses under the legal layouts, against their formulas.

use crate::conform;
use crate::meanings::{line, logsumexp, sigmoid, total};
use mesh_core::graph::TensorType;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{At, Case, Dense, Fill};

/// One axis and two. With these axis names no inputs are pending; the ops' own cases cover that.
const GRIDS: &[&str] = &["m:2", "m:2;n:2"];
const AXIS: &[&str] = &["m:2"];

/// A loss of each element: from the elements of all inputs there.
fn each(formula: fn(&[f64]) -> f64) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    move |x, ty| Dense::each(ty, |at| formula(&x.iter().map(|x| x.at(at)).collect::<Vec<_>>()))
}

type Loss = for<'g> fn(&[Tensor<'g>]) -> Tensor<'g>;

/// A case of a loss of each element. Residuals are multiples of 1/8 less 1/16: no corner is met.
fn of_elements(name: &str, loss: Loss, formula: fn(&[f64]) -> f64) -> Case {
    Case::new(name, move |_, x| loss(x)).computes(each(formula)).meshes(AXIS)
}

/// A prediction and a target that the loss compares.
fn residual(case: Case) -> Case {
    let target = Fill::Values(vec![0.0625, 0.3125, -0.1875]);
    case.input("x", "p:4;q:6", F32, Fill::Distinct).input("target", "q:6", F32, target)
}

const SIDES: [f64; 5] = [1.0, -1.0, -1.0, 1.0, 1.0];

#[test]
fn regression_losses() {
    fn huber(r: f64, delta: f64) -> f64 {
        if r.abs() <= delta { r * r / 2.0 } else { delta * (r.abs() - delta / 2.0) }
    }
    let variance = Fill::Between(0.25, 2.0);
    conform(
        "regression_losses",
        vec![
            residual(of_elements(
                "squared_error",
                |x| squared_error(x[0], x[1]),
                |x| (x[0] - x[1]).powi(2),
            ))
            .meshes(GRIDS),
            residual(of_elements(
                "absolute_error",
                |x| absolute_error(x[0], x[1]),
                |x| (x[0] - x[1]).abs(),
            )),
            residual(of_elements(
                "huber_loss",
                |x| huber_loss(x[0], x[1], 0.75),
                |x| huber(x[0] - x[1], 0.75),
            )),
            residual(of_elements(
                "smooth_l1_loss",
                |x| smooth_l1_loss(x[0], x[1], 0.5),
                |x| huber(x[0] - x[1], 0.5) / 0.5,
            )),
            residual(of_elements(
                "log_cosh",
                |x| log_cosh(x[0], x[1]),
                |x| (x[0] - x[1]).cosh().ln(),
            )),
            residual(of_elements(
                "gaussian_nll",
                |x| gaussian_nll(x[0], x[2], x[1]),
                |x| (x[2].ln() + (x[1] - x[0]).powi(2) / x[2]) / 2.0,
            ))
            .input("variance", "p:4;q:6", F32, variance),
            of_elements("poisson_nll", |x| poisson_nll(x[0], x[1]), |x| x[0].exp() - x[1] * x[0])
                .normal("x", "p:4;q:6", F32)
                .input("count", "q:6", F32, Fill::Integers(0, 5)),
        ],
    );
}

#[test]
fn probability_losses() {
    fn entropy(p: f64, z: f64) -> f64 {
        -z * p.ln() - (1.0 - z) * (1.0 - p).ln()
    }
    let between = || Fill::Between(0.125, 0.875);
    let classes = dim("classes", 6);
    conform(
        "probability_losses",
        vec![
            of_elements(
                "binary_cross_entropy",
                |x| binary_cross_entropy(x[0], x[1]),
                |x| entropy(x[0], x[1]),
            )
            .input("p", "p:4;q:6", F32, between())
            .input("target", "p:4", F32, Fill::Between(0.0, 1.0)),
            of_elements(
                "sigmoid_focal_loss",
                |x| sigmoid_focal_loss(x[0], x[1], 0.25, 2.0),
                |x| {
                    let (p, z) = (sigmoid(x[0]), x[1]);
                    let right = p * z + (1.0 - p) * (1.0 - z);
                    let weight = 0.25 * z + 0.75 * (1.0 - z);
                    weight * (1.0 - right).powi(2) * entropy(p, z)
                },
            )
            .away_from_zero("x", "p:4;q:6", F32)
            .input("target", "p:4;q:6", F32, Fill::Integers(0, 1)),
            Case::new("kl_divergence", move |_, x| kl_divergence(x[0], x[1], classes))
                .computes(|x, ty| {
                    let term = |at: &At| x[1].at(at) * (x[1].at(at).ln() - x[0].at(at));
                    Dense::each(ty, |at| line(at, ("classes", 6), term).iter().sum())
                })
                .normal("x", "p:4;classes:6", F32)
                .input("target", "p:4;classes:6", F32, between())
                .meshes(GRIDS),
        ],
    );
}

/// Vectors of model:4, away from 0.
fn vectors(case: Case, names: &[&str], dims: &str) -> Case {
    names.iter().fold(case, |case, name| case.normal(name, dims, F32))
}

fn length(x: &Dense, at: &At) -> f64 {
    total(at, &[("model", 4)], &|at| x.at(at).powi(2)).sqrt()
}

fn cosine(x: &Dense, y: &Dense, at: &At) -> f64 {
    total(at, &[("model", 4)], &|at| x.at(at) * y.at(at)) / length(x, at) / length(y, at)
}

#[test]
fn margin_losses() {
    let model = dim("model", 4);
    let sides = || Fill::Values(SIDES.to_vec());
    let apart = |x: &Dense, y: &Dense, at: &At| {
        total(at, &[("model", 4)], &|at| (x.at(at) - y.at(at) + 1e-6).powi(2)).sqrt()
    };
    conform(
        "margin_losses",
        vec![
            of_elements("hinge_loss", |x| hinge_loss(x[0], x[1]), |x| (1.0 - x[0] * x[1]).max(0.0))
                .input("x", "p:4;q:6", F32, Fill::Values(vec![0.5, 2.0, -0.25, -3.0, 0.125]))
                .input("side", "q:6", F32, sides()),
            of_elements(
                "hinge_embedding_loss",
                |x| hinge_embedding_loss(x[0], x[1].stop_gradient(), 0.75),
                |x| if x[1] == 1.0 { x[0] } else { (0.75 - x[0]).max(0.0) },
            )
            .input("x", "p:4;q:6", F32, Fill::Values(vec![0.5, 2.0, 0.25, 3.0]))
            .input("alike", "q:6", F32, sides()),
            of_elements(
                "margin_ranking_loss",
                |x| margin_ranking_loss(x[0], x[1], x[2], 0.5),
                |x| (0.5 - x[2] * (x[0] - x[1])).max(0.0),
            )
            .input("x", "p:4;q:6", F32, Fill::Distinct)
            .input("y", "q:6", F32, Fill::Values(vec![0.0625, 0.3125, -0.1875]))
            .input("first", "q:6", F32, sides()),
            vectors(
                Case::new("cosine_similarity", move |_, x| cosine_similarity(x[0], x[1], model))
                    .computes(|x, ty| Dense::each(ty, |at| cosine(x[0], x[1], at))),
                &["x"],
                "p:4;model:4",
            )
            .normal("y", "q:2;model:4", F32)
            .meshes(GRIDS),
            vectors(
                Case::new("cosine_embedding_loss", move |_, x| {
                    cosine_embedding_loss(x[0], x[1], x[2].stop_gradient(), model, 0.125)
                })
                .computes(|x, ty| {
                    Dense::each(ty, |at| match cosine(x[0], x[1], at) {
                        c if x[2].at(at) == 1.0 => 1.0 - c,
                        c => (c - 0.125).max(0.0),
                    })
                }),
                &["x", "y"],
                "p:6;model:4",
            )
            .input("alike", "p:6", F32, sides())
            .meshes(AXIS),
            vectors(
                Case::new("triplet_margin_loss", move |_, x| {
                    triplet_margin_loss(x[0], x[1], x[2], model, 0.5)
                })
                .computes(move |x, ty| {
                    Dense::each(ty, |at| {
                        (apart(x[0], x[1], at) - apart(x[0], x[2], at) + 0.5).max(0.0)
                    })
                }),
                &["anchor", "positive", "negative"],
                "p:6;model:4",
            )
            .meshes(AXIS),
        ],
    );
}

/// Row `i` of the views stacked: the first view's examples, then the other's.
fn view(x: &[&Dense], i: usize, at: &At) -> f64 {
    x[i / 4].at(&at.with("batch", i % 4))
}

#[test]
fn contrastive_losses() {
    let (batch, model) = (dim("batch", 4), dim("model", 4));
    conform(
        "contrastive_losses",
        vec![
            Case::new("nt_xent", move |_, x| nt_xent(x[0], x[1], batch, model, 0.5))
                .computes(|x, ty| {
                    let product = |i, j| {
                        let at = At::default();
                        let term = |at: &At| view(x, i, at) * view(x, j, at);
                        total(&at, &[("model", 4)], &term)
                    };
                    let alike = |i, j| product(i, j) / (product(i, i) * product(j, j)).sqrt() / 0.5;
                    let loss = |i: usize| {
                        let others = (0..8).filter(|&j| j != i).map(|j| alike(i, j));
                        logsumexp(&others.collect::<Vec<_>>()) - alike(i, (i + 4) % 8)
                    };
                    Dense::each(ty, |at| {
                        let i = at.along("batch");
                        (loss(i) + loss(i + 4)) / 2.0
                    })
                })
                .normal("one", "batch:4;model:4", F32)
                .normal("other", "batch:4;model:4", F32)
                .meshes(GRIDS),
        ],
    );
}

/// The probability of labels among three classes, the first of which is blank, as the sum over all strings
/// of `times` classes that spell them.
fn spelt(log_p: &dyn Fn(usize, usize) -> f64, times: usize, labels: &[usize]) -> f64 {
    let strings = (0..3usize.pow(times as u32))
        .map(|n| (0..times).map(|t| n / 3usize.pow(t as u32) % 3).collect::<Vec<_>>());
    let spells = |string: &Vec<usize>| {
        let mut runs = string.clone();
        runs.dedup();
        runs.retain(|&class| class != 0);
        runs == labels
    };
    let p = |string: Vec<usize>| (0..times).map(|t| log_p(t, string[t])).sum::<f64>().exp();
    strings.filter(spells).map(p).sum()
}

#[test]
fn ctc_losses() {
    let (time, classes, labels) = (dim("time", 5), dim("classes", 3), dim("labels", 2));
    let meaning = |x: &[&Dense], ty: &TensorType| {
        Dense::each(ty, |at| {
            let logit =
                |t: usize, class: usize| x[0].at(&at.with("time", t).with("classes", class));
            let log_p = |t: usize, class: usize| {
                logit(t, class) - logsumexp(&[0, 1, 2].map(|class| logit(t, class)))
            };
            let all = line(at, ("labels", 2), |at| x[1].at(at));
            let labels: Vec<_> = all.iter().map(|label| *label as usize).collect();
            let (times, length) = (x[2].at(at) as usize, x[3].at(at) as usize);
            -spelt(&log_p, times, &labels[..length]).ln()
        })
    };
    conform(
        "ctc_losses",
        vec![
            Case::new("ctc", move |_, x| {
                let ctc = Ctc { time, classes, labels, blank: 0 };
                Ctc::apply(&ctc, x[0], x[1], x[2], x[3])
            })
            .computes(meaning)
            .normal("x", "batch:4;time:5;classes:3", F32)
            .input("labels", "batch:4;labels:2", I32, Fill::Values(vec![1.0, 2.0, 2.0, 2.0, 1.0]))
            .input("times", "batch:4", I32, Fill::Values(vec![5.0, 3.0, 4.0, 2.0]))
            .input("lengths", "batch:4", I32, Fill::Values(vec![2.0, 2.0, 1.0, 0.0]))
            .meshes(AXIS),
        ],
    );
}
