//! The features of a cross-shard optimizer.

use super::guides::settles;
use mesh_core::names::ReduceKind;
use mesh_core::program::Form;
use mesh_ops::prelude::*;
use mesh_optimize::{
    AdamWeightDecay, Groups, Optimizer, Reduction, Sgd, clip_by_global_norm, clip_per_replica,
    compute_gradients, cross_shard_loss, per_replica, per_replica_gradients,
};
use ndarray::{Array1, Array2, Array3, ArrayD, arr1};

/// Four shards of three examples.
const SHARDS: (usize, usize, usize) = (4, 3, 2);
/// Layouts for them; the first is one processor.
const LAYOUTS: &[(&str, &str)] = &[
    ("", ""),
    ("data:2", "shard:data"),
    ("data:4", "shard:data"),
    ("data:2;more:3", "shard:data;batch:more"),
    ("data:4", "shard:data;slots/*:data"),
    ("data:2", "shard:data;params/*:data;slots/*:data"),
];

/// Multiples of a half without a pattern.
fn noise(seed: usize, shape: (usize, usize, usize)) -> Array3<f32> {
    let mixed = |i: usize| ((i + 7 * seed + 1).wrapping_mul(2_654_435_761) >> 7) % 13;
    let numbers = (0..shape.0 * shape.1 * shape.2).map(|i| mixed(i) as f32 / 2.0 - 3.0);
    Array3::from_shape_vec(shape, numbers.collect()).unwrap()
}

fn lowered(graph: &Graph, mesh: &str, layout: &str) -> Module {
    graph.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap()
}

fn close(got: &ArrayD<f64>, want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{what}: {got} not {want}");
    }
}

#[test]
fn row_13_the_reduction_is_sum_or_mean() {
    assert_eq!(Reduction::default(), Reduction::Mean);
    for (text, expected) in [("SUM", Reduction::Sum), ("mean", Reduction::Mean)] {
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!(expected.to_string().parse(), Ok(expected));
    }
    let error = "weighted_sum".parse::<Reduction>().unwrap_err().to_string();
    assert!(error.contains("weighted_sum") && error.contains("SUM and MEAN"), "{error}");
}

/// The change of `w = [1, -2]` by a step of size 1, computed by hand: `scale` times the sum over
/// shards of both gradients. A shard's loss is the mean of `(x w)²` over its examples plus the
/// regulariser `|w|²`.
fn change(x: &Array3<f32>, scale: f64) -> Vec<f64> {
    let w = [1.0, -2.0];
    let mut grad = [0.0; 2];
    for shard in x.outer_iter() {
        for example in shard.outer_iter() {
            let x: Vec<_> = example.iter().map(|&x| f64::from(x)).collect();
            let y = x[0] * w[0] + x[1] * w[1];
            (0..2).for_each(|i| grad[i] += scale * 2.0 * y * x[i] / shard.nrows() as f64);
        }
        (0..2).for_each(|i| grad[i] += scale * 2.0 * w[i]);
    }
    grad.to_vec()
}

#[test]
fn row_14_mean_scales_the_loss_before_differentiation() {
    for (shards, reduction) in
        [(4, Reduction::Mean), (4, Reduction::Sum), (1, Reduction::Mean), (1, Reduction::Sum)]
    {
        let (shard, batch, x) = (dim("shard", shards), dim("batch", 3), dim("x", 2));
        let g = mesh_ops::graph();
        let input = g.input("input", [shard, batch, x], F32);
        let w = g.variable("w", [x], F32, Initializer::ONES);
        let fit = input.einsum(&[w.value()], [shard, batch]).square().mean_over([batch]);
        let loss = cross_shard_loss(fit + w.value().square().sum_all(), shard, reduction);
        let train = g.function("train", [input], [loss], Sgd::new(1.0).minimize(loss));
        assert!(g.warnings().is_empty());
        let data = noise(1, (shards, 3, 2));
        let scale = if reduction == Reduction::Mean { 1.0 / shards as f64 } else { 1.0 };
        let expected = change(&data, scale);
        for (mesh, layout) in LAYOUTS.iter().filter(|_| shards == 4).chain(&LAYOUTS[..1]) {
            let what = format!("{reduction} of {shards} under {layout}");
            let module = lowered(&g, mesh, layout);
            for step in module.functions()[0].steps() {
                let kind = match &step.form {
                    Form::AllReduce(form) => form.kind,
                    Form::ReduceScatter(form) => form.kind,
                    _ => continue,
                };
                assert_eq!(kind, ReduceKind::Sum, "{what}: sums travel");
            }
            let mut session = Session::threads(&module, 0).unwrap();
            session.set_replica_check(true).unwrap();
            session.write("w", &arr1(&[1f32, -2.0])).unwrap();
            session.call(&train, [data.view().into()]).unwrap();
            let after = session.read("w").unwrap().to_f64();
            close(&(arr1(&[1.0, -2.0]).into_dyn() - after), &expected, &what);
        }
    }
}

#[test]
fn row_15_group_assignments_name_any_processors() {
    let groups = Groups::parse("[[0, 3], [1, 2]]", 4).unwrap().unwrap();
    assert_eq!((groups.groups(), groups.size()), (2, 2));
    assert_eq!(Groups::new(&[vec![0, 3], vec![1, 2]], 4), Ok(Some(groups.clone())));
    let mesh = groups.mesh("group", "data").unwrap();
    let data = mesh.axis("data").unwrap();
    let physical: Vec<Vec<_>> = mesh
        .groups(&[data])
        .iter()
        .map(|group| group.iter().map(|part| mesh.physical(*part)).collect())
        .collect();
    assert_eq!(physical, [[0, 3], [1, 2]]);
    assert_eq!((Groups::new(&[], 4), Groups::parse("[]", 4)), (Ok(None), Ok(None)));
    for (text, words) in [
        ("[0, 1, 2, 3]", ["list of lists", "[0, 1, 2, 3]"]),
        ("[[0, 1], [2, \"a\"]]", ["list of lists", "\"a\""]),
        ("all", ["list of lists", "got all"]),
        ("[[0, 1], [2, 4]]", ["0..4", "[[0, 1], [2, 4]]"]),
        ("[[0, 1], [2]]", ["0..4", "[[0, 1], [2]]"]),
        ("[[0, 1, 2], [3]]", ["one size", "[[0, 1, 2], [3]]"]),
    ] {
        let error = Groups::parse(text, 4).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn row_16_a_processor_named_twice_is_refused() {
    let error = Groups::new(&[vec![0, 1], vec![1, 2]], 3).unwrap_err().to_string();
    assert!(error.contains("[[0, 1], [1, 2]]") && error.contains("0..3 once"), "{error}");
}

/// A regression with Adam; with `members`, one for each of them.
fn regression(g: &Graph, members: Option<Dimension>) -> Function<2, 1> {
    let (batch, x) = (dim("batch", 4), dim("x", 3));
    let own = |dims: &[Dimension]| members.into_iter().chain(dims.to_vec()).collect::<Vec<_>>();
    let input = g.input("input", own(&[batch, x]), F32);
    let target = g.input("target", own(&[batch]), F32);
    let w = g.variable("w", own(&[x]), F32, Initializer::ZEROS);
    let error = input.einsum(&[w.value()], own(&[batch])) - target;
    let loss = error.square().mean_over([batch]);
    let updates = AdamWeightDecay::new(0.1).minimize(loss.sum_all());
    g.function("train", [input, target], [loss], updates)
}

#[test]
fn row_17_groups_diverge() {
    let batch = |step: usize, group: usize| {
        let input = noise(3 * step + group, (1, 4, 3));
        let target = noise(5 * step + group + 1, (1, 4, 1)).into_shape_with_order((1, 4)).unwrap();
        (input, target)
    };
    // Two runs on two processors each.
    let apart: Vec<_> = (0..2)
        .map(|group| {
            let g = mesh_ops::graph();
            let train = regression(&g, None);
            let module = lowered(&g, "data:2", "batch:data");
            let mut session = Session::threads(&module, 0).unwrap();
            session.write("w", &arr1(&[1f32, 2.0, group as f32])).unwrap();
            for step in 0..4 {
                let (input, target) = batch(step, group);
                let (input, target) = (input.index_axis(ndarray::Axis(0), 0), target.row(0));
                session.call(&train, [input.into(), target.into()]).unwrap();
            }
            ["w", "w/adam_m", "w/adam_v"].map(|name| session.read(name).unwrap().to_f64())
        })
        .collect();
    assert_ne!(apart[0][0], apart[1][0]);
    // One run on four processors in two groups.
    let g = mesh_ops::graph();
    let train = regression(&g, Some(dim("member", 2)));
    let groups = Groups::parse("[[0, 3], [1, 2]]", 4).unwrap().unwrap();
    let mesh = groups.mesh("group", "data").unwrap();
    let module = g.lower(&mesh, &"member:group;batch:data".parse().unwrap()).unwrap();
    let explain = module.explain();
    let mut collectives = explain.functions[0].collectives();
    assert!(collectives.all(|(_, axes, _)| axes == "data"), "nothing crosses groups: {explain}");
    let mut session = Session::threads(&module, 0).unwrap();
    session.set_replica_check(true).unwrap();
    session.write("w", &Array2::from_shape_fn((2, 3), |(m, i)| [1f32, 2.0, m as f32][i])).unwrap();
    for step in 0..4 {
        let ((a, s), (b, t)) = (batch(step, 0), batch(step, 1));
        let join = ndarray::Axis(0);
        let input = ndarray::concatenate(join, &[a.view(), b.view()]).unwrap();
        let target = ndarray::concatenate(join, &[s.view(), t.view()]).unwrap();
        session.call(&train, [input.view().into(), target.view().into()]).unwrap();
    }
    for (i, name) in ["w", "w/adam_m", "w/adam_v"].into_iter().enumerate() {
        let both = session.read(name).unwrap().to_f64();
        for (member, own) in both.outer_iter().zip(&apart) {
            close(&member.to_owned(), own[i].as_slice().unwrap(), name);
        }
    }
}

#[test]
fn row_18_without_shards_there_is_one() {
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("x", 2)], F32, Initializer::ONES);
    let loss = w.value().square().sum_all();
    let same = cross_shard_loss(loss, dim("shard", 4), Reduction::Mean);
    let warnings = g.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].message.contains("one shard is assumed"), "{}", warnings[0]);
    let train = g.function("train", [], [same], Sgd::new(0.5).minimize(same));
    // A mesh without axes is one processor.
    let mut session = Session::threads(&lowered(&g, "", ""), 0).unwrap();
    let [loss] = session.call(&train, []).unwrap();
    assert_eq!(loss.item(), Some(2.0), "not divided");
    assert_eq!(session.read("w").unwrap(), arr1(&[0f32, 0.0]).into());
    // A dim of another size is an error.
    let other = g.fill(1.0, [dim("shard", 2)], F32);
    cross_shard_loss(other, dim("shard", 4), Reduction::Mean);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("shard:2") && report.contains("shard:4"), "{report}");
}

#[test]
fn row_19_gradients_and_updates_are_apart() {
    let (shard, batch, x) = (dim("shard", SHARDS.0), dim("batch", SHARDS.1), dim("x", SHARDS.2));
    let mut data = noise(2, SHARDS);
    // One shard's gradient is huge.
    data.index_axis_mut(ndarray::Axis(0), 1).mapv_inplace(|v| v * 1e3);
    // The gradient of each shard's mean of (x w)², by hand, w = [1, -2].
    let grads: Vec<Vec<f64>> = data
        .outer_iter()
        .map(|own| {
            let own = own.insert_axis(ndarray::Axis(0)).to_owned();
            let change = change(&own, 1.0);
            vec![change[0] - 2.0, change[1] + 4.0]
        })
        .collect();
    let clipped = |grad: &[f64], most: f64| -> Vec<f64> {
        let norm = grad.iter().map(|g| g * g).sum::<f64>().sqrt();
        grad.iter().map(|g| g * (most / norm).min(1.0)).collect()
    };
    let add = |grads: &[Vec<f64>]| {
        vec![0, 1].into_iter().map(|i| grads.iter().map(|grad| grad[i]).sum()).collect::<Vec<f64>>()
    };
    let before = add(&grads.iter().map(|grad| clipped(grad, 5.0)).collect::<Vec<_>>());
    let after = clipped(&add(&grads), 5.0);

    for (clip_first, expected) in [(true, before), (false, after)] {
        let g = mesh_ops::graph();
        let input = g.input("input", [shard, batch, x], F32);
        let w = g.variable("w", [x], F32, Initializer::ONES);
        let lonely = g.variable("lonely", [x], F32, Initializer::ONES);
        let sgd = Sgd::new(1.0);
        let updates = if clip_first {
            let own = per_replica(w, shard);
            let loss = input.einsum(&[own], [shard, batch]).square().mean_over([batch]);
            let grads = per_replica_gradients(loss, &[(own, w)]);
            sgd.apply_grads(&clip_per_replica(&grads, shard, 5.0))
        } else {
            let loss = input.einsum(&[w.value()], [shard, batch]).square().mean_over([batch]);
            // Without a list of variables all are meant. A variable without a gradient passes
            // through.
            let grads = compute_gradients(cross_shard_loss(loss, shard, Reduction::Sum), &[]);
            assert_eq!(grads.len(), 2);
            assert!(grads[0].0.is_some() && grads[1].0.is_none());
            assert_eq!(grads[1].1.id(), lonely.id());
            sgd.apply_grads(&clip_by_global_norm(&grads, 5.0).0)
        };
        let train = g.function("train", [input], [], updates);
        for (mesh, layout) in LAYOUTS {
            let mut session = Session::threads(&lowered(&g, mesh, layout), 0).unwrap();
            session.write("w", &arr1(&[1f32, -2.0])).unwrap();
            session.call(&train, [data.view().into()]).unwrap();
            let after = session.read("w").unwrap().to_f64();
            close(&(arr1(&[1.0, -2.0]).into_dyn() - after), &expected, layout);
        }
    }
    // No gradient at all is an error.
    let g = mesh_ops::graph();
    let lonely = g.variable("lonely", [x], F32, Initializer::ONES);
    compute_gradients(g.scalar(1.0, F32), &[lonely]);
    assert!(g.check().unwrap_err().to_string().contains("depends on none of lonely"));
}

#[test]
fn row_20_a_function_that_trains_counts_one_step() {
    let g = mesh_ops::graph();
    let make = |name: &str| g.variable(name, [dim("x", 4)], F32, Initializer::ONES);
    let (a, b) = (make("a"), make("b"));
    let sgd = Sgd::new(0.1);
    let minimize =
        |w| sgd.apply_grads(&compute_gradients(Variable::value(w).square().sum_all(), &[w]));
    let once = g.function("once", [], [g.step()], minimize(a));
    let twice = g.function("twice", [], [g.step()], [minimize(a), minimize(b)].concat());
    let look = g.function("look", [], [g.step()], []);
    for (mesh, layout) in [("", ""), ("d:2", "x:d"), ("d:4", "params/*:d;slots/*:d")] {
        let mut session = Session::threads(&lowered(&g, mesh, layout), 0).unwrap();
        let mut seen = Vec::new();
        for function in [&once, &twice, &look, &twice, &once, &look] {
            let [step] = session.call(function, []).unwrap();
            seen.extend(step.item());
        }
        // The step before the update.
        assert_eq!(seen, [0.0, 1.0, 2.0, 2.0, 3.0, 4.0], "{layout}");
    }
}

#[test]
fn row_21_slots_are_found_by_name() {
    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("x", 4)], F32, Initializer::ONES);
    let other = g.variable("other", [dim("x", 4)], F32, Initializer::ONES);
    let adam = AdamWeightDecay::new(0.1);
    let updates = adam.apply_grads(&compute_gradients(w.value().square().sum_all(), &[w]));
    assert_eq!(adam.slot_names(), ["adam_m", "adam_v"]);
    assert_eq!(adam.slot(w, "adam_m").map(Variable::name).as_deref(), Some("w/adam_m"));
    assert!(adam.slot(w, "velocity").is_none() && adam.slot(other, "adam_m").is_none());
    assert!(Sgd::new(0.1).slot(w, "adam_m").is_none(), "another optimizer's");
    let train = g.function("train", [], [adam.slot(w, "adam_v").unwrap().value()], updates);
    let mut session = Session::threads(&lowered(&g, "d:2", "slots/*:d"), 0).unwrap();
    let variables: Vec<_> = session.variables().collect();
    assert_eq!(variables, ["w", "other", "w/adam_m", "w/adam_v", "step"]);
    session.call(&train, []).unwrap();
    let [before] = session.call(&train, []).unwrap();
    close(&before.to_f64(), &[0.004; 4], "(1 - 0.999) 2²");
    let m = session.read("w/adam_m").unwrap();
    assert_eq!(m.shape(), Array1::<f32>::zeros(4).shape());
}

#[test]
fn row_22_what_needs_no_counterpart() {
    settles(
        "from-cross-shard-optimizer.md",
        &["The TypeError about OptimizerV2", "name", "Colocation", "use_locking"],
    );
}
