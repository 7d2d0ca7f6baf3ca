//! `assert_reduced` accepts gradients of whole batches under every layout, and names the others.

use mesh_core::lower::{AllReduce, Options};
use mesh_core::program::forms::Barrier;
use mesh_core::program::{Form, Step};
use mesh_ops::prelude::*;
use mesh_optimize::{
    Adafactor, AdamWeightDecay, Delayed, Momentum, Optimizer, ReducedError, Sgd, Unreduced,
    assert_reduced, clip_by_global_norm, clip_per_replica, compute_gradients, microbatches,
    per_replica, per_replica_gradients,
};
use tests::changed;

fn checked(g: &Graph, mesh: &str, layout: &str, batch: &str) -> Result<(), ReducedError> {
    let layout: Layout = layout.parse().unwrap();
    let module = g.lower(&mesh.parse().unwrap(), &layout).unwrap();
    assert_reduced(&module, &layout, "train", batch)
}

type Build = fn(&Graph);

fn features(g: &Graph) -> Tensor<'_> {
    g.input("x", [dim("batch", 16), dim("pixels", 8)], F32)
}

fn perceptron(x: Tensor<'_>) -> Tensor<'_> {
    let h = x.dense(dim("hidden", 12), "hidden").relu();
    h.dense(dim("out", 4), "out").square().mean()
}

fn train(g: &Graph, optimizer: &dyn Optimizer) {
    let x = features(g);
    let loss = perceptron(x);
    g.function("train", [x], [loss], optimizer.minimize(loss));
}

fn clipped(g: &Graph) {
    let x = features(g);
    let loss = perceptron(x);
    let (grads, norm) = clip_by_global_norm(&compute_gradients(loss, &[]), 0.1);
    let updates = AdamWeightDecay::new(0.1).apply_grads(&grads);
    g.function("train", [x], [loss, norm.unwrap()], updates);
}

fn in_parts(g: &Graph) {
    let x = features(g);
    let (loss, grads) = microbatches(g, dim("batch", 16), 2, &[x], |part| perceptron(part[0]));
    g.function("train", [x], [loss], Sgd::new(0.1).apply_grads(&grads));
}

/// A loop over three layers.
fn scanned(g: &Graph) {
    let (layers, width) = (dim("layers", 3), dim("pixels", 8));
    let x = features(g);
    let w = g.variable("w", [layers, width, dim("next", 8)], F32, Initializer::ONES);
    let next = dim("next", 8);
    let ([y], []) = g.scan(layers, [x], [w.value()], |[x], [own]| {
        let y = x.einsum(&[own], [dim("batch", 16), next]);
        ([y.tanh().rename(next, "pixels")], [])
    });
    let loss = y.square().mean();
    g.function("train", [x], [loss], Adafactor::default().minimize(loss));
}

const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("data:2", "batch:data"),
    ("data:4", "batch:data;slots/*:data"),
    ("data:4", "batch:data;params/*:data;slots/*:data"),
    ("data:4", "batch:data;params/*:data"),
    ("host:2;local:2", "batch:host+local"),
    ("host:2;local:2", "batch:host+local;slots/*:local"),
    ("data:2", "batch:data;params/*:data@0;slots/*:data@0"),
    ("data:4", "batch:data;params/*:data@each;slots/*:data@each"),
    ("host:2;local:2", "batch:host+local;params/*:local@each;slots/*:local@each"),
];

#[test]
fn gradients_of_the_whole_batch_pass() {
    let models: [(&str, Build); 8] = [
        ("sgd", |g| train(g, &Sgd::new(0.1))),
        ("momentum", |g| train(g, &Momentum::new(0.1, 0.9))),
        ("adam", |g| train(g, &AdamWeightDecay::new(0.1))),
        ("adafactor", |g| train(g, &Adafactor::default())),
        // The gradient first goes into a ring buffer of optimizer state.
        ("delayed", |g| train(g, &Delayed::new(Sgd::new(0.1), 2))),
        ("clipped", clipped),
        ("in parts", in_parts),
        ("scanned", scanned),
    ];
    for (name, build) in models {
        let g = mesh_ops::graph();
        build(&g);
        for (mesh, layout) in LAYOUTS {
            let checked = checked(&g, mesh, layout, "batch");
            assert_eq!(checked, Ok(()), "{name} under {layout}");
        }
    }
    for all_reduce in [AllReduce::Ring, AllReduce::Hierarchical, AllReduce::ReduceToOne] {
        let g = mesh_ops::graph();
        clipped(&g);
        for (mesh, layout) in LAYOUTS {
            let (on, layout) = (mesh.parse().unwrap(), layout.parse().unwrap());
            let module =
                g.lower_with(&on, &layout, &Options { all_reduce, ..Options::default() }).unwrap();
            let checked = assert_reduced(&module, &layout, "train", "batch");
            assert_eq!(checked, Ok(()), "{all_reduce} under {layout}");
        }
    }
    let g = mesh_ops::graph();
    train(&g, &AdamWeightDecay::new(0.1));
    for layout in ["batch:data;hidden:model", "batch:data;pixels:model", "batch:model+data"] {
        assert_eq!(checked(&g, "data:2;model:2", layout, "batch"), Ok(()), "{layout}");
    }
}

/// Where optimizer state is split, each processor changes its part of a parameter, and what is gathered goes
/// straight into the variable.
#[test]
fn new_values_are_gathered_and_not_changes() {
    let g = mesh_ops::graph();
    train(&g, &AdamWeightDecay::new(0.1));
    let layout = "batch:data;slots/*:data".parse().unwrap();
    let module = g.lower(&"data:4".parse().unwrap(), &layout).unwrap();
    let steps = || module.function("train").unwrap().steps().iter();
    let gathered: Vec<_> =
        steps().filter(|s| s.form.name() == "all_gather").map(|s| s.outs[0]).collect();
    let whole = steps().filter_map(|step| {
        let Form::Write(write) = &step.form else { return None };
        let variable = &module.variables()[write.variable.index()];
        let is_whole = variable.placement.splits().next().is_none();
        (is_whole && !variable.shape.is_scalar()).then_some(step.inputs[0].value)
    });
    assert_eq!(whole.collect::<Vec<_>>(), gathered);
    assert_eq!(gathered.len(), 4);
}

/// A variable with a copy for each replica, and another without.
fn replicas(g: &Graph, clip: bool) {
    let (replica, batch, x) = (dim("replica", 4), dim("batch", 8), dim("x", 3));
    let input = g.input("input", [replica, batch, x], F32);
    let own = g.variable("own", [replica, x], F32, Initializer::ONES);
    let shared = g.variable("shared", [x], F32, Initializer::ONES);
    let loss = input.einsum(&[own.value()], [replica, batch, x]) * shared.value();
    let grads = compute_gradients(loss.square().mean(), &[]);
    // A norm over all replicas is no gradient of all replicas.
    let grads = if clip { clip_by_global_norm(&grads, 0.1).0 } else { grads };
    g.function("train", [input], [], AdamWeightDecay::new(0.1).apply_grads(&grads));
}

fn found(result: Result<(), ReducedError>) -> Vec<Unreduced> {
    match result {
        Err(ReducedError::Unreduced { variables, .. }) => variables,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_replicas_keep_to_themselves_is_named() {
    for clip in [false, true] {
        let g = mesh_ops::graph();
        replicas(&g, clip);
        let named = found(checked(&g, "data:4", "replica:data", "replica"));
        assert_eq!(named.len(), 1, "{named:?}");
        assert_eq!(
            (named[0].variable.as_str(), &named[0].apart[..]),
            ("own", &["data".into()][..])
        );
        // It is reduced over the axis of the examples.
        let layout = "replica:group;batch:data";
        assert_eq!(checked(&g, "group:2;data:2", layout, "batch"), Ok(()));
        let error = checked(&g, "group:2;data:2", layout, "replica").unwrap_err().to_string();
        assert!(error.contains("own: each processor along group") && !error.contains("shared"));
        // Nothing is split.
        assert_eq!(checked(&g, "", "", "replica"), Ok(()));
    }
}

#[test]
fn copies_for_each_replica_are_summed() {
    let g = mesh_ops::graph();
    let (replica, batch, x) = (dim("replica", 4), dim("batch", 8), dim("x", 4));
    let input = g.input("input", [replica, batch, x], F32);
    let w = g.variable("w", [x], F32, Initializer::ONES);
    let own = per_replica(w, replica);
    let loss = input.einsum(&[own], [replica, batch]).square().mean_over([batch]);
    let grads = clip_per_replica(&per_replica_gradients(loss, &[(own, w)]), replica, 1.0);
    g.function("train", [input], [], Sgd::new(0.1).apply_grads(&grads));
    for layout in ["replica:data", "replica:data;slots/*:data"] {
        assert_eq!(checked(&g, "data:4", layout, "replica"), Ok(()), "{layout}");
    }
}

#[test]
fn updates_without_a_gradient_are_named() {
    let g = mesh_ops::graph();
    let x = features(&g);
    let loss = perceptron(x);
    let drift = g.variable("drift", [dim("out", 4)], F32, Initializer::ONES);
    let mut updates = Sgd::new(0.1).minimize(loss);
    updates.push(drift.assign_sub(drift.stored() * 0.01));
    g.function("train", [x], [loss], updates);
    g.function("look", [x], [loss], []);
    for (mesh, layout) in &LAYOUTS[1..] {
        let named = found(checked(&g, mesh, layout, "batch"));
        assert_eq!(named.len(), 1, "{layout}: {named:?}");
        let axes = mesh.split(';').map(|axis| axis.split(':').next().unwrap().to_owned());
        assert_eq!(named[0].variable, "drift");
        assert_eq!(named[0].missing, axes.collect::<Vec<_>>());
        assert!(named[0].apart.is_empty());
    }
    let error = checked(&g, "data:2", "batch:data", "batch").unwrap_err().to_string();
    assert_eq!(
        error,
        "`train` does not reduce over all axes that split batch:\n  drift: nothing that changes it \
         is summed over data"
    );
    let layout: Layout = "batch:data".parse().unwrap();
    let module = g.lower(&"data:2".parse().unwrap(), &layout).unwrap();
    let look = assert_reduced(&module, &layout, "look", "batch").unwrap_err();
    assert_eq!(look, ReducedError::NothingTrained("look".to_owned()));
    let unknown = assert_reduced(&module, &layout, "trian", "batch").unwrap_err().to_string();
    assert!(unknown.contains("`trian`") && unknown.contains("train, look"), "{unknown}");
}

#[test]
fn every_reduction_that_is_taken_away_is_missed() {
    let g = mesh_ops::graph();
    train(&g, &AdamWeightDecay::new(0.1));
    let layout: Layout = "batch:data".parse().unwrap();
    let module = g.lower(&"data:4".parse().unwrap(), &layout).unwrap();
    let mut missed = Vec::new();
    let all_reduced = |(at, step): (usize, &Step)| match &step.form {
        Form::AllReduce(_) => (0..step.inputs.len()).map(|pair| (at, pair)).collect(),
        _ => Vec::new(),
    };
    let steps = module.functions()[0].steps().iter().enumerate();
    for (at, pair) in steps.flat_map(all_reduced).collect::<Vec<_>>() {
        let changed = changed(&module, |functions, _| {
            let steps = &mut functions[0].block.steps;
            let all_reduce = &mut steps[at];
            let (input, out) = (all_reduce.inputs.remove(pair), all_reduce.outs.remove(pair));
            let (inputs, outs) = ([input].into_iter().collect(), [out].into_iter().collect());
            let taken = Step { form: Barrier.into(), inputs, outs, ..all_reduce.clone() };
            let alone = all_reduce.outs.is_empty();
            steps.splice(at..at + usize::from(alone), [taken]);
        });
        match assert_reduced(&changed.unwrap(), &layout, "train", "batch") {
            // The all-reduce is that of the fetched loss.
            Ok(()) => missed.push(String::new()),
            unreduced => missed.extend(found(unreduced).into_iter().map(|u| u.variable)),
        }
    }
    missed.sort();
    assert_eq!(missed, ["", "hidden/bias", "hidden/kernel", "out/bias", "out/kernel"]);
}
