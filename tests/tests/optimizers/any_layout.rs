//! Every optimizer of the list under random layouts and the one that a search finds, with every number looked at,
//! and in a run that leaves a report.

use super::listed::{close, config, network, steps, variables};
use mesh_core::lower::Target;
use mesh_core::passes::Machine;
use mesh_core::session::Threads;
use mesh_ops::prelude::*;
use mesh_ops::testing::Random;
use mesh_optimize::dataset::{Dataset, Remainder};
use mesh_optimize::search::{FindLayout, Objective, Search};
use mesh_optimize::training::{ReportFile, Trainer};
use mesh_optimize::{OptimizerConfig, optimizers};
use ndarray::Array2;
use std::collections::BTreeSet;
use std::path::Path;

/// Layouts of each optimizer.
const LAYOUTS: usize = 5;

/// Layouts that are drawn for these at most.
const DRAWN: usize = 500;

/// Steps under each.
const STEPS: usize = 3;

/// One of some words.
fn one_of<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words[random.below(words.len())]
}

/// Rules for computations, for variables and for slots on a mesh of two axes of two: each splits one dim or any,
/// over one axis or over both, or lets one processor have all of it, or each in turn.
fn layout(random: &mut Random) -> String {
    let mut rules = Vec::new();
    for dim in ["batch", "hidden", "x", "y"] {
        let axis = one_of(random, &["", "", "a", "b", "a+b", "b+a"]);
        if !axis.is_empty() {
            rules.push(format!("{dim}:{axis}"));
        }
    }
    for set in ["params", "slots"] {
        let axes = [
            "",
            "*:a",
            "*:b",
            "*:a+b",
            "hidden:a",
            "hidden:b+a",
            "y:b",
            "*:a@each",
            "*:b@each",
            "*:a@1",
            "*:b@0",
        ];
        let rule = one_of(random, &axes);
        if !rule.is_empty() {
            rules.push(format!("{set}/{rule}"));
        }
    }
    rules.join(";")
}

/// Layouts that are legal for the graph: different ones, none of which is empty.
fn legal(g: &Graph, random: &mut Random) -> Vec<(String, Module)> {
    let mesh: Mesh = "a:2;b:2".parse().unwrap();
    let mut seen = BTreeSet::new();
    let drawn = (0..DRAWN).map(|_| layout(random)).filter(|layout| !layout.is_empty());
    let new = drawn.filter(|layout| seen.insert(layout.clone()));
    let lowered = new.filter_map(|text| {
        let module = g.lower(&mesh, &text.parse().ok()?).ok()?;
        Some((text, module))
    });
    lowered.take(LAYOUTS).collect()
}

/// The layout of two processors that needs least memory, which the search finds and proves.
fn found(g: &Graph, function: &str) -> (String, Module) {
    let objective = Objective::Bytes;
    let search = Search { axes: 1, objective, ..Search::new(function, 2, Machine::host()) };
    let found = g.search(&search).unwrap();
    assert!(found.certificate.proven, "{found}");
    let module = g.lower(&found.best.mesh, &found.best.layout).unwrap();
    // Of what variables take, the price knows every byte.
    assert_eq!(found.best.price.variable_bytes, module.variable_bytes(), "{found}");
    let layout = found.best.layout.to_string();
    assert!(!layout.is_empty(), "{found}");
    (layout, module)
}

/// A checked call ends at the first number that is not finite, so none is made in any of these.
#[test]
fn they_do_on_several_processors_what_they_do_on_one() {
    for entry in optimizers() {
        let config = OptimizerConfig::from_json(&config(entry).to_string()).unwrap();
        let (g, optimizer) = (mesh_ops::graph(), config.optimizer());
        let train = network(&g, &*optimizer);
        let alone = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        let checked = Threads::default().target(Target::host().check_numerics());
        let run = |module: &Module| {
            let mut session = Session::threads_with(module, 5, &checked).unwrap();
            session.set_replica_check(true).unwrap();
            steps(&mut session, &train, 0..STEPS);
            variables(&session)
        };
        let (want, mut layouts) = (run(&alone), legal(&g, &mut Random::new(entry.name())));
        assert_eq!(layouts.len(), LAYOUTS, "{}: few of {DRAWN} are legal", entry.name());
        layouts.push(found(&g, train.name()));
        for (layout, module) in layouts {
            close(&run(&module), &want, &format!("{} under {layout}", entry.name()));
        }
    }
}

/// Runs of a few steps with a report, which shows where each variable lies and what slots take.
#[test]
fn their_runs_leave_reports() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("every_optimizer.html");
    let layout: Layout = "batch:d;slots/*:d".parse().unwrap();
    let numbers = |width| {
        let number = |(i, j): (usize, usize)| ((i * 7 + j) as f64).sin();
        Array::from(Array2::from_shape_fn((8, width), number))
    };
    for entry in optimizers() {
        let name = entry.name();
        let config = OptimizerConfig::from_json(&config(entry).to_string()).unwrap();
        let (g, optimizer) = (mesh_ops::graph(), config.optimizer());
        network(&g, &*optimizer);
        let module = g.lower(&"d:2".parse().unwrap(), &layout).unwrap();
        let mut session = Session::threads(&module, 5).unwrap();
        let examples = Dataset::from_arrays([("x", numbers(6)), ("y", numbers(2))]).unwrap();
        let batches = examples.batch(4, Remainder::Drop).unwrap();
        let report = ReportFile::create(&path, name, &module, &layout, "train").unwrap();
        Trainer::new(&mut session, "train", batches)
            .quiet()
            .epochs(2)
            .metric_names(["loss"])
            .watch(report)
            .run()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let page = std::fs::read_to_string(&path).unwrap();
        for said in ["Time by operation", "first/kernel", "slots and other state"] {
            assert!(page.contains(said), "{name}: no {said:?} in the report");
        }
    }
}
