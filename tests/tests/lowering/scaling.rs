//! One program serves every processor, so lowering does not depend on their number.

use mesh_core::program::Step;
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use std::time::{Duration, Instant};
use tests::on_host;

/// The two programs differ only in tiles, which depend on the size of slices, so the ratio is about
/// 1.
const RATIO: f64 = 1.2;

/// The training step of a 784-512-512-10 perceptron on 8,192 examples.
fn perceptron(g: &Graph) {
    let (batch, classes) = (dim("batch", 8192), dim("classes", 10));
    let image = g.input("image", [batch, dim("pixels", 784)], F32);
    let label = g.input("label", [batch], I32);
    let h = image.dense(dim("hidden1", 512), "hidden1").relu();
    let h = h.dense(dim("hidden2", 512), "hidden2").relu();
    let loss = h.dense(classes, "logits").softmax_cross_entropy(label, classes).mean();
    g.function("train", [image, label], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
}

/// The shortest time in seconds: other programs on the machine only add to it.
fn least(times: &[Duration]) -> f64 {
    times.iter().min().map_or(0.0, Duration::as_secs_f64)
}

#[test]
fn lowering_for_4096_processors_costs_what_it_costs_for_2() {
    let g = mesh_ops::graph();
    perceptron(&g);
    let layout = "batch:all".parse().unwrap();
    let meshes: [Mesh; 2] = ["all:2", "all:4096"].map(|mesh| mesh.parse().unwrap());
    let mut times: [Vec<Duration>; 2] = Default::default();
    let mut steps = Vec::new();
    for round in 0..100 {
        // Twenty repetitions are enough unless other programs use the machine.
        if round > 0 && round % 20 == 0 && least(&times[1]) <= RATIO * least(&times[0]) {
            break;
        }
        for (mesh, times) in meshes.iter().zip(&mut times) {
            let start = Instant::now();
            let functions = on_host(&g.lower(mesh, &layout).unwrap());
            times.push(start.elapsed());
            let collective = |step: &Step| Some((step.form.name(), step.axes()?.clone()));
            let collectives = functions[0].program.steps().iter().filter_map(collective);
            steps.push(collectives.collect::<Vec<_>>());
        }
    }
    assert!(steps.iter().all(|list| *list == steps[0]), "the same collectives");
    let [few, many] = times.map(|times| least(&times));
    println!("least: {few:.6} s for 2, {many:.6} s for 4,096, ratio {:.2}", many / few);
    assert!(many <= RATIO * few, "{many} s against {few} s");
}
