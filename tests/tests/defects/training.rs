//! Defects of optimizers.

use mesh_ops::prelude::*;
use mesh_optimize::compute_gradients;
use mesh_optimize::{Adafactor, AdamWeightDecay, ByName, Momentum, Optimizer, Sgd};
use ndarray::{arr1, arr2};

/// With rates by name, the last pattern decided, and unused updates stayed in the graph. Here the
/// first pattern that matches decides, each variable is updated once, and a second update is an
/// error that names both lines.
#[test]
fn d07_each_variable_is_updated_once_at_its_own_rate() {
    let g = mesh_ops::graph();
    let d = dim("d", 2);
    let [a, b, c] = ["a", "b", "c"].map(|name| g.variable(name, [d], F32, Initializer::ONES));
    let loss = (a.value() * 2.0 + b.value() * 4.0 + c.value() * 8.0).sum_all();
    let rate = |lr| AdamWeightDecay { epsilon: 0.0.into(), ..AdamWeightDecay::standard(lr) };
    let by_name = ByName::new(rate(0.125)).with("a", rate(0.5)).with("[ab]", rate(0.25));
    let updates = by_name.minimize(loss);
    // The variable, its two moments and their count have one update each.
    assert_eq!(updates.len(), 3 * 4);
    g.function("train", [], [], updates);
    let module = g.lower(&"m:2".parse().unwrap(), &"d:m".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    session.call_named("train", &[]).unwrap();
    for (name, rate) in [("a", 0.5), ("b", 0.25), ("c", 0.125)] {
        // The first update of Adam is 1, and the decay a hundredth of the value.
        let got = session.read(name).unwrap().to_f64()[[0]];
        assert!((got - (1.0 - rate * 1.01)).abs() < 1e-6, "{name}: {got}");
    }
    let grads = compute_gradients(loss, &[a]);
    let twice = [0.5, 0.25].map(|rate| Sgd::new(rate).apply_grads(&grads)).concat();
    g.function("twice", [], [], twice);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("variable a is updated twice"), "{report}");
}

/// Updates of stacked variables were clipped by the root mean square over the whole stack. Here the
/// elements of a stack are independent of each other.
#[test]
fn d20_clipping_knows_one_of_a_stack_at_a_time() {
    let (stack, d) = (dim("stack", 2), dim("d", 4));
    let stacked = |large: f32, mesh: &str, layout: &str| {
        let g = mesh_ops::graph();
        let w = g.variable("w", [stack, d], F32, Initializer::ONES);
        let x = g.input("x", [stack, d], F32);
        let adafactor =
            Adafactor { stacked_dims: vec!["stack".to_owned()], ..Adafactor::default() };
        let train = g.function("train", [x], [], adafactor.minimize((x * w.value()).sum_all()));
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        // The second gradient is larger than the average of squares expects, so it is clipped.
        for x in [1.0_f32, 100.0] {
            let fed = arr2(&[[x; 4], [x * large, 1.0, 1.0, 1.0]]);
            let [] = session.call(&train, [fed.view().into()]).unwrap();
        }
        session.read("w").unwrap().to_f64()
    };
    let alone = {
        let g = mesh_ops::graph();
        let w = g.variable("w", [d], F32, Initializer::ONES);
        let x = g.input("x", [d], F32);
        let train =
            g.function("train", [x], [], Adafactor::default().minimize((x * w.value()).sum_all()));
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        for x in [1.0_f32, 100.0] {
            let [] = session.call(&train, [arr1(&[x; 4]).view().into()]).unwrap();
        }
        session.read("w").unwrap().to_f64()
    };
    for (mesh, layout) in [("", ""), ("m:2", "stack:m"), ("m:2", "d:m"), ("m:2", "slots/*:m")] {
        for large in [1.0, 1000.0] {
            let both = stacked(large, mesh, layout);
            for i in 0..4 {
                let (got, want) = (both[[0, i]], alone[[i]]);
                assert!((got - want).abs() < 1e-6, "{layout}, {large}: {got} not {want}");
            }
        }
    }
}

/// Momentum used the average from before the step, or raced with its update. Here reads see the
/// values at the call's start, and the new average is a tensor of its own. Of Adafactor's first
/// update a tenth is applied; the second step of plain momentum is 1.9 times the first.
#[test]
fn d22_momentum_uses_the_new_average() {
    let step = |beta1: f64| {
        let g = mesh_ops::graph();
        let d = dim("d", 4);
        let w = g.variable("w", [d], F32, Initializer::ONES);
        let optimizer = Adafactor { beta1: beta1.into(), ..Adafactor::default() };
        let train = g.function("train", [], [], optimizer.minimize((w.value() * 3.0).sum_all()));
        let module = g.lower(&"m:2".parse().unwrap(), &"d:m".parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let [] = session.call(&train, []).unwrap();
        let kept = session.read("w/adafactor_m").ok().map(|m| m.to_f64()[[0]]);
        (1.0 - session.read("w").unwrap().to_f64()[[0]], kept)
    };
    let ((plain, none), (slowed, kept)) = (step(0.0), step(0.9));
    assert!((plain - 0.01).abs() < 1e-6 && none.is_none(), "{plain}");
    assert!((slowed - 0.001).abs() < 1e-6, "{slowed}");
    assert!((kept.unwrap() - 0.001).abs() < 1e-6, "{kept:?}");

    let g = mesh_ops::graph();
    let w = g.variable("w", [dim("d", 4)], F32, Initializer::ONES);
    let loss = (w.value() * 2.0).sum_all();
    let train = g.function("train", [], [], Momentum::new(0.0625, 0.9).minimize(loss));
    let module = g.lower(&"m:2".parse().unwrap(), &"d:m".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    for moved in [0.125, 0.125 + 0.2375] {
        let [] = session.call(&train, []).unwrap();
        let got = session.read("w").unwrap().to_f64()[[0]];
        assert!((got - (1.0 - moved)).abs() < 1e-6, "{got}");
    }
}
