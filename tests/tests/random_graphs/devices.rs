//! Random graphs on XLA's devices: fewer of them, as each is compiled.

use super::{Graphs, MESHES, build, called, expected, legal_part, near, tolerances};
use crate::recipe::{SMALL, recipes};
use mesh_ops::prelude::*;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tests::{fast, plugin};

/// Graphs of each kind; four times as many if `MESH_NIGHTLY` is set.
fn cases() -> usize {
    if std::env::var_os("MESH_NIGHTLY").is_some() { 120 } else { 30 }
}

#[test]
fn graphs_agree_on_devices() {
    let Some(plugin) = plugin() else { return };
    let mut runner = TestRunner::deterministic();
    for number in 0..cases() {
        let recipe = recipes(&SMALL).new_tree(&mut runner).unwrap().current();
        for graphs in [Graphs::Exact, Graphs::Smooth] {
            let trial = build(graphs, &SMALL, &recipe);
            let mesh: Mesh = MESHES[usize::from(recipe.mesh) % MESHES.len()].parse().unwrap();
            let (layout, module) = legal_part(&trial.graph, &mesh, &recipe.layout);
            let session = Session::xla_with(&module, 0, &fast(&plugin)).unwrap();
            let got = called(session, &module, &trial);
            let result = near(&got, &expected(&trial), &tolerances(&trial));
            let what = format!("graph {number}, {graphs:?}, mesh {mesh} layout {layout}");
            assert!(result.is_ok(), "{what}: {result:?}\n{recipe:?}");
        }
    }
}
