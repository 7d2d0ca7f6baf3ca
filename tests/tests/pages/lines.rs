//! Every operation and every error has the line of the user's program that asked for it, through
//! any public function. Here that is a line of these tests.

use crate::catalogue::{
    Entry, Flaw, core_ops,
    instances::{self, firsts},
    layers, metrics, sources, with_flaw,
};
use mesh_core::graph::Provenance;
use mesh_ops::prelude::*;
use mesh_optimize::{
    Adafactor, Adam, AdamW, AdamWeightDecay, ByName, Delayed, Momentum, Optimizer, OptimizerConfig,
    Reduction, Schedule, Sgd, Sophia, Units, adaptive_clip, clip_by_global_norm, clip_by_norm,
    clip_by_value, clip_per_replica, compute_gradients, cross_shard_loss, hutchinson, microbatches,
    optimizers, per_replica, per_replica_gradients,
    schedule::{self, CosineRestarts, Exponential, OneCycle, ReduceOnPlateau, WarmupStableDecay},
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Every function and layer of the catalogue.
fn entries() -> Vec<Entry> {
    let rooms = instances::rooms().into_iter();
    let mut all: Vec<_> = rooms
        .flat_map(|room| firsts(room.ops).into_iter().chain(firsts(room.compositions)))
        .collect();
    all.extend(layers::all());
    all.extend(metrics::all());
    all.extend(core_ops::all().into_iter().map(|(_, entry)| entry));
    all
}

/// A line of these tests, or of a room's cases, which stand behind the room itself.
fn is_ours(at: &Provenance) -> bool {
    static ROOMS: LazyLock<BTreeMap<String, String>> =
        LazyLock::new(|| sources::sources("mesh_ops/src"));
    let (file, line) = (at.location.file(), at.location.line() as usize);
    let of_cases = |source: &String| {
        let before = source.lines().take(line);
        let apart = ["/proof.rs", "/cases.rs"].iter().any(|name| file.ends_with(name));
        apart || before.into_iter().any(|line| line.contains("mod proof {"))
    };
    file.starts_with("tests/") || ROOMS.get(file).is_some_and(of_cases)
}

/// Fails with all functions at once, as a mistake in one is often made in its neighbours, too.
fn assert_none(strangers: BTreeSet<String>) {
    let list: Vec<_> = strangers.into_iter().collect();
    assert!(list.is_empty(), "lines that are not the user's:\n{}", list.join("\n"));
}

/// The operations of a graph that carry lines of other files.
fn strangers(name: &str, g: &Graph) -> BTreeSet<String> {
    let operations = g.operations().into_iter().filter(|operation| !is_ours(&operation.at));
    operations.map(|operation| format!("{name}: {} at {}", operation.name, operation.at)).collect()
}

#[test]
fn operations_and_their_gradients_have_the_users_line() {
    let mut found = BTreeSet::new();
    for entry in entries() {
        let g = mesh_ops::graph();
        let made = (entry.build)(&g);
        let of_floats = |t: &&Tensor<'_>| t.dtype().is_float();
        let ys: Vec<_> = made.outputs.iter().filter(of_floats).copied().collect();
        let xs: Vec<_> = made.inputs.iter().filter(of_floats).copied().collect();
        g.check().unwrap_or_else(|report| panic!("{}: {report}", entry.name));
        g.gradients(&ys, &xs, None);
        found.extend(strangers(&entry.name, &g));
    }
    assert_none(found);
}

/// Each function is called with each flaw in each of its inputs. A flaw need not matter to every
/// function, but every function that takes tensors refuses some.
#[test]
fn errors_have_the_users_line() {
    /// These functions accept all flaws.
    const LENIENT: &[&str] = &[
        "Graph::input",
        "Tensor::relayout",
        "Tensor::stop_gradient",
        "Tensor::probe",
        "cast",
        "zeros_like",
        "ones_like",
        "weights_nonzero",
        "padding_mask",
        "meshgrid",
    ];
    let dtypes = [F32, BF16, I32, Bool].map(Flaw::Of);
    let dims = (0..4).flat_map(|i| [Flaw::Misspelt(i), Flaw::Longer(i), Flaw::Without(i)]);
    let flaws: Vec<_> = dtypes.into_iter().chain(dims).chain([Flaw::Stray]).collect();
    let (mut found, mut lenient) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries() {
        let inputs = (entry.build)(&mesh_ops::graph()).inputs.len();
        let mut refused = inputs == 0;
        for (input, &flaw) in (0..inputs).flat_map(|i| flaws.iter().map(move |flaw| (i, flaw))) {
            let g = mesh_ops::graph();
            with_flaw(input, flaw, || drop((entry.build)(&g)));
            let issues = g.check().err().map(|report| report.issues).unwrap_or_default();
            refused |= !issues.is_empty();
            for issue in issues {
                if !issue.at.as_ref().is_some_and(is_ours) {
                    found.insert(format!("{}, input {input} {flaw:?}: {issue}", entry.name));
                }
            }
            found.extend(strangers(&entry.name, &g));
        }
        if !refused {
            lenient.insert(entry.name);
        }
    }
    assert_none(found);
    assert_eq!(lenient, LENIENT.iter().map(|name| (*name).to_owned()).collect());
}

/// Every schedule.
fn rates() -> Vec<Schedule> {
    vec![
        0.1.into(),
        schedule::constant(0.1),
        schedule::polynomial_decay(0.1, 0.01, 10, 2.0),
        schedule::cyclic_polynomial_decay(0.1, 0.01, 10, 2.0),
        schedule::linear_decay(0.1, 0.01, 10),
        schedule::cosine_decay(0.1, 10, 0.1),
        schedule::inverse_square_root(10),
        schedule::noam(0.1, 10, 100, 0.1),
        schedule::slanted_triangular(0.1, 100, 0.1, 32.0),
        schedule::piecewise_constant(0.1, &[(10, 0.01)]),
        schedule::linear_warmup(10),
        schedule::linear_to_zero(100, 10),
        schedule::with_warmup(0.1, 10),
        schedule::offset(schedule::linear_warmup(10), 5),
        Exponential { end: Some(0.01), ..Exponential::new(0.1, 10, 0.5) }.into(),
        OneCycle::new(0.1, 100).into(),
        CosineRestarts { growth: 2.0, shrink: 0.5, ..CosineRestarts::new(0.1, 10) }.into(),
        WarmupStableDecay::new(0.1, 10, 100, 20).into(),
        ReduceOnPlateau::default().rate(0.1),
    ]
}

/// A loss of two variables, for each index of `batch`.
fn losses(g: &Graph) -> Tensor<'_> {
    let x = g.input("x", [dim("batch", 4), dim("k", 6)], F32);
    x.dense(dim("y", 3), "d").square().mean_over([dim("y", 3)])
}

#[test]
fn what_optimizers_make_has_the_users_line() {
    let mut found = BTreeSet::new();
    let mut look = |name: &str, build: &dyn Fn(&Graph)| {
        let g = mesh_ops::graph();
        build(&g);
        g.check().unwrap_or_else(|report| panic!("{name}: {report}"));
        found.extend(strangers(name, &g));
    };
    let mut made: Vec<(&str, Box<dyn Optimizer>)> = vec![
        ("Sgd", Box::new(Sgd::new(0.1))),
        ("Momentum", Box::new(Momentum::new(0.1, 0.9))),
        ("Adam", Box::new(Adam::new(0.1))),
        ("AdamW", Box::new(AdamW::new(0.1))),
        ("AdamWeightDecay", Box::new(AdamWeightDecay::new(0.1))),
        ("AdamWeightDecay::standard", Box::new(AdamWeightDecay::standard(0.1))),
        ("Adafactor", Box::new(Adafactor::default())),
        ("Delayed", Box::new(Delayed::new(Sgd::new(0.1), 2))),
        ("ByName", Box::new(ByName::new(Sgd::new(0.1)).with("kernel", Momentum::new(0.1, 0.9)))),
    ];
    made.extend(optimizers().iter().filter(|entry| !entry.wraps()).map(|entry| {
        (entry.name(), entry.optimizer(&0.1.into(), serde_json::Map::new()).unwrap())
    }));
    for entry in optimizers().iter().filter(|entry| entry.wraps()) {
        let config = json!({"opt_name": entry.name(), "lr": 0.1, "inner": {"opt_name": "adam"}});
        let config = OptimizerConfig::from_json(&config.to_string()).unwrap();
        made.push((entry.name(), config.optimizer()));
    }
    for (name, optimizer) in &made {
        look(name, &|g| drop(optimizer.minimize(losses(g).mean())));
        look(&format!("{name}, for_evaluation"), &|g| {
            optimizer.for_evaluation(&[losses(g).mean()]);
        });
    }
    look("ReduceOnPlateau", &|g| {
        ReduceOnPlateau::default().observe(losses(g).mean());
    });
    look("adaptive_clip", &|g| {
        adaptive_clip(&compute_gradients(losses(g).mean(), &[]), 0.1, 1e-3, &Units::ByRank);
    });
    for (i, rate) in rates().into_iter().enumerate() {
        look(&format!("rate {i}"), &|g| drop(Sgd::new(rate.clone()).minimize(losses(g).mean())));
        look(&format!("rate {i}, at"), &|g| {
            rate.at(g, F32);
        });
        look(&format!("rate {i}, at_step"), &|g| {
            rate.at_step(g.step().cast(F64));
        });
    }
    look("hutchinson", &|g| drop(Sophia::new(0.1).curvature(&hutchinson(losses(g).mean(), &[]))));
    look("clip_by_value", &|g| {
        clip_by_value(&compute_gradients(losses(g).mean(), &[]), -1.0, 1.0);
    });
    look("clip_by_norm", &|g| drop(clip_by_norm(&compute_gradients(losses(g).mean(), &[]), 1.0)));
    look("clip_by_global_norm", &|g| {
        clip_by_global_norm(&compute_gradients(losses(g).mean(), &[]), 1.0);
    });
    look("clip_per_replica", &|g| {
        let (replica, k) = (dim("replica", 2), dim("k", 3));
        let w = g.variable("w", [k], F32, Initializer::ONES);
        let value = per_replica(w, replica);
        let grads = per_replica_gradients(value.square().sum_all(), &[(value, w)]);
        clip_per_replica(&grads, replica, 1.0);
    });
    look("cross_shard_loss", &|g| {
        cross_shard_loss(losses(g), dim("batch", 4), Reduction::Mean);
    });
    look("microbatches", &|g| {
        let (batch, k) = (dim("batch", 4), dim("k", 6));
        let x = g.input("x", [batch, k], F32);
        microbatches(g, batch, 2, &[x], |part| part[0].dense(dim("y", 3), "d").square().mean());
    });
    assert_none(found);
}
