//! Mesh TensorFlow's 33 known defects, D1 to D33: a test for each shows that it is not ours.
//!
//! If a feature is missing here, the test shows what replaces it, and its comment says so: D4 and
//! D5 (Rust finds such mistakes when it compiles), D6 and D26 (no automatic placement), D7, D20 and
//! D22 (no schedules by name, stacked dims or momentum optimizer).

#[allow(dead_code, reason = "shared with tests of layers")]
#[path = "../layers/fed.rs"]
mod fed;
mod gradients;
mod layers;
mod moving;
mod names;
mod training;
mod windows;

use mesh_core::program::Step;
use mesh_ops::prelude::*;

/// Collectives of the last declared function: forms with bytes received.
fn collectives(g: &Graph, mesh: &str, layout: &str) -> Vec<(String, u64)> {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    let explain = module.explain();
    let last = explain.functions.last().unwrap();
    last.collectives().map(|(form, _, bytes)| (form.clone(), *bytes)).collect()
}

/// The steps of a one-function graph.
fn steps(g: &Graph, mesh: &str, layout: &str) -> Vec<Step> {
    let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
    module.functions()[0].steps().to_vec()
}

#[test]
fn all_33_are_here() {
    let sources = [
        include_str!("gradients.rs"),
        include_str!("layers.rs"),
        include_str!("moving.rs"),
        include_str!("names.rs"),
        include_str!("training.rs"),
        include_str!("windows.rs"),
    ];
    let of = |number: usize| format!("fn d{number:02}_");
    let count =
        |number| sources.iter().map(|text| text.matches(&of(number)).count()).sum::<usize>();
    let missing: Vec<_> = (1..=33).filter(|&number| count(number) != 1).collect();
    assert!(missing.is_empty(), "D{missing:?}");
}
