//! Variables and functions: reads see the call's start, writes are committed together (law 8), the
//! step counts training calls, and sharded state has the expected cost.

use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer, Sgd};
use ndarray::arr1;
use tests::on_host;

const MESHES: &[(&str, &str)] =
    &[("", ""), ("d:2", "x:d"), ("d:2", "params/*:d"), ("d:2;m:2", "x:d+m"), ("d:3", "")];

fn sessions(graph: &Graph) -> impl Iterator<Item = Session> + '_ {
    MESHES.iter().map(|(mesh, layout)| {
        let module = graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 7).unwrap();
        session.set_replica_check(true).unwrap();
        session
    })
}

#[test]
fn updates_commit_together() {
    let g = mesh_ops::graph();
    let x = dim("x", 4);
    let a = g.state("a", [x], F32, Initializer::Constant(1.0));
    let b = g.state("b", [x], F32, Initializer::Constant(2.0));
    let sum = a.value() + b.value();
    let swap = g.function("swap", [], [sum], [a.assign(b.value()), b.assign(a.value())]);
    let fibonacci =
        g.function("fibonacci", [], [a.value()], [a.assign(b.value()), b.assign_add(a.value())]);
    for mut session in sessions(&g) {
        let [seen] = session.call(&swap, []).unwrap();
        assert_eq!(seen.as_f32().unwrap(), &arr1(&[3f32; 4]).into_dyn());
        assert_eq!(session.read("a").unwrap().as_f32().unwrap()[[0]], 2.0);
        assert_eq!(session.read("b").unwrap().as_f32().unwrap()[[3]], 1.0);
        for expected in [2.0, 1.0, 3.0, 4.0, 7.0, 11.0] {
            let [before] = session.call(&fibonacci, []).unwrap();
            assert_eq!(before.as_f32().unwrap()[[2]], expected);
        }
    }
}

#[test]
fn the_step_counts_training_calls_once() {
    let g = mesh_ops::graph();
    let x = dim("x", 4);
    let (a, b) = (
        g.variable("a", [x], F32, Initializer::ONES),
        g.variable("b", [x], F32, Initializer::ONES),
    );
    let (loss_a, loss_b) = (a.value().sum_all(), b.value().sum_all());
    let sgd = Sgd::new(0.5);
    // Two losses over disjoint variables, as for a pair of adversaries.
    let mut updates = sgd.apply_grads(&[(g.gradients(&[loss_a], &[a.value()], None)[0], a)]);
    updates.extend(sgd.apply_grads(&[(g.gradients(&[loss_b], &[b.value()], None)[0], b)]));
    let train = g.function("train", [], [g.step()], updates);
    let look = g.function("look", [], [g.step(), loss_a + loss_b], []);
    for mut session in sessions(&g) {
        for step in 0..3 {
            let [seen] = session.call(&train, []).unwrap();
            assert_eq!(seen.item(), Some(f64::from(step)));
            let [after, loss] = session.call(&look, []).unwrap();
            assert_eq!(after.item(), Some(f64::from(step + 1)));
            assert_eq!(loss.item(), Some(8.0 - 4.0 * f64::from(step + 1)));
        }
    }
}

#[test]
fn initial_values_are_those_of_one_processor() {
    let g = mesh_ops::graph();
    let dims = [dim("x", 12), dim("y", 8)];
    let glorot = Initializer::variance_scaling(1.0, Fan::Average, &dims[..1], &dims[1..]);
    g.variable("uniform", dims, F32, Initializer::Uniform { low: -1.0, high: 3.0 });
    g.variable("normal", dims, F64, Initializer::TruncatedNormal { mean: 1.0, stddev: 0.5 });
    g.variable("plain", dims, F64, Initializer::Normal { mean: 1.0, stddev: 2.0 });
    g.variable("scaled", dims, BF16, glorot);
    g.variable("again", dims, F32, Initializer::Uniform { low: -1.0, high: 3.0 });
    let names = ["uniform", "normal", "scaled", "again", "plain"];
    let values = |mesh: &str, layout: &str, seed| -> Vec<_> {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let session = Session::threads(&module, seed).unwrap();
        names.map(|name| session.read(name).unwrap()).to_vec()
    };
    let one = values("", "", 3);
    for (mesh, layout) in [("a:4", "x:a"), ("a:2;b:2", "y:b+a"), ("a:3", "params/*:a")] {
        assert_eq!(values(mesh, layout, 3), one, "{layout}");
    }
    assert_ne!(values("", "", 4), one);
    assert_ne!(one[0], one[3], "names make a difference");
    let normal = one[1].to_f64();
    assert!(normal.iter().all(|v| (0.0..=2.0).contains(v)), "cut at two deviations");
    let mean = normal.mean().unwrap();
    assert!((mean - 1.0).abs() < 0.15, "{mean}");
    let plain = one[4].to_f64();
    assert!(plain.iter().any(|v| (v - 1.0).abs() > 4.0), "nothing is cut");
    let (mean, deviation) = (plain.mean().unwrap(), plain.std(0.0));
    assert!((mean - 1.0).abs() < 0.6 && (deviation - 2.0).abs() < 0.4, "{mean} {deviation}");
}

#[test]
fn two_updates_of_one_variable_are_refused() {
    let g = mesh_ops::graph();
    let a = g.state("a", [], F32, Initializer::ZEROS);
    let one = g.scalar(1.0, F32);
    g.function("f", [], [], [a.assign(one), a.assign_add(one)]);
    let report = g.check().unwrap_err().to_string();
    let lines = report.matches("tests/tests/session/state.rs:").count();
    assert!(report.contains("variable a is updated twice") && lines == 3, "{report}");
}

/// Adam on a matrix of 32 x 64, with the batch split into four.
fn trained(layout: &str) -> Module {
    let g = mesh_ops::graph();
    let (batch, x, y) = (dim("batch", 8), dim("x", 32), dim("y", 64));
    let input = g.input("input", [batch, x], F32);
    let w = g.variable("w", [x, y], F32, Initializer::ONES);
    let loss = input.einsum(&[w.value()], [batch, y]).relu().mean();
    g.function("train", [input], [loss], AdamWeightDecay::new(0.1).minimize(loss));
    g.lower(&"d:4".parse().unwrap(), &layout.parse().unwrap()).unwrap()
}

#[test]
fn sharded_state_costs_its_share() {
    let matrix = 32 * 64 * 4;
    let step = 4;
    let bytes = |layout: &str| trained(layout).variable_bytes() - step;
    assert_eq!(bytes("batch:d"), 3 * matrix);
    assert_eq!(bytes("batch:d;slots/*:d"), matrix + 2 * matrix / 4);
    assert_eq!(bytes("batch:d;params/*:d;slots/*:d"), 3 * matrix / 4);
}

#[test]
fn sharded_parameters_are_gathered_for_use_only() {
    let module = trained("batch:d;params/*:d;slots/*:d");
    let forms: Vec<_> = module.functions()[0].steps().iter().map(|s| s.form.name()).collect();
    let count = |form: &str| forms.iter().filter(|f| **f == form).count();
    assert_eq!(count("all_gather"), 1, "for the forward pass; the backward pass needs no w");
    assert_eq!(count("reduce_scatter"), 1, "the gradient");
    assert_eq!(count("all_reduce"), 1, "the loss");
}

#[test]
fn functions_of_little_work() {
    let g = mesh_ops::graph();
    let x = g.input("x", [dim("x", 4)], F32);
    let unused = g.input("unused", [], I32);
    let v = g.variable("v", [dim("x", 4)], F32, Initializer::Constant(5.0));
    let nothing = g.function("nothing", [], [], []);
    let same = g.function("same", [unused, x], [x, x, v.value()], []);
    let copy = g.function("copy", [x], [], [v.assign(x)]);
    let data = arr1(&[1f32, 2.0, 3.0, 4.0]);
    for mut session in sessions_of_four(&g) {
        let [] = session.call(&nothing, []).unwrap();
        let seven = ndarray::arr0(7i32);
        let feeds = [seven.view().into(), data.view().into()];
        let [a, b, before] = session.call(&same, feeds).unwrap();
        assert_eq!((a.as_f32(), b.as_f32()), (Some(&data.clone().into_dyn()), a.as_f32()));
        assert_eq!(before.as_f32().unwrap(), &arr1(&[5f32; 4]).into_dyn());
        let [] = session.call(&copy, [data.view().into()]).unwrap();
        assert_eq!(session.read("v").unwrap().as_f32().unwrap(), &data.clone().into_dyn());
        let wrong = session.call_named("copy", &[("y", data.view().into())]).unwrap_err();
        assert!(wrong.to_string().contains('y'), "{wrong}");
    }
}

fn sessions_of_four(graph: &Graph) -> impl Iterator<Item = Session> + '_ {
    let layouts = [("", ""), ("d:4", "x:d"), ("d:2;m:2", "params/*:m"), ("d:2;m:2", "x:m+d")];
    layouts.into_iter().map(|(mesh, layout)| {
        let module = graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        Session::threads(&module, 0).unwrap()
    })
}

/// Under full sharding a step needs its shards and two gathered layers: the one in use, and a
/// gradient before it is reduce-scattered.
#[test]
fn sharded_layers_live_two_at_a_time() {
    let (layers, width, batch) = (6, 256, dim("batch", 8));
    let arena = |layout: &str| {
        let g = mesh_ops::graph();
        let dims = ["even", "odd"].map(|name| dim(name, width));
        let x = g.input("x", [batch, dims[0]], F32);
        let mut h = x;
        for layer in 0..layers {
            h = h.dense(dims[(layer + 1) % 2], &format!("layer{layer}")).tanh();
        }
        let loss = h.square().mean();
        g.function("train", [x], [loss], AdamWeightDecay::new(0.1).minimize(loss));
        let module = g.lower(&"data:4".parse().unwrap(), &layout.parse().unwrap()).unwrap();
        (on_host(&module)[0].plan.arena_bytes, module.variable_bytes())
    };
    let layer = (width * width + width) * 4;
    let activations = layers * 3 * (batch.size / 4) * width * 4;
    let (whole, held) = arena("batch:data");
    // A quarter of every parameter and its two slots, and one shard of every gradient.
    let (sharded, quarter) = arena("batch:data;params/*:data;slots/*:data");
    assert!(quarter <= held / 4 + 4, "{quarter} of {held}");
    let shards = layers * layer / 4;
    assert!(sharded <= shards + 2 * layer + activations, "{sharded}, layers of {layer}");
    assert!(whole > layers * layer, "{whole}");
}
