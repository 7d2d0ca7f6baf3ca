//! Defects of optimizers.

use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, Optimizer, Sgd};
use ndarray::arr1;

/// With rates by name, the last pattern decided and stray updates stayed in the graph. There are no
/// rates by name here yet; optimizers for different variables stand side by side, each variable is
/// updated once, and a second update is an error that names both lines.
#[test]
fn d07_each_variable_is_updated_once() {
    let g = mesh_ops::graph();
    let d = dim("d", 2);
    let [a, b] = ["a", "b"].map(|name| g.variable(name, [d], F32, Initializer::ONES));
    let loss = (a.value() * 2.0 + b.value() * 4.0).sum_all();
    let grads = g.gradients(&[loss], &[a.value(), b.value()], None);
    let mut updates = Sgd::new(0.5).apply_grads(&[(grads[0], a)]);
    updates.extend(Sgd::new(0.25).apply_grads(&[(grads[1], b)]));
    assert_eq!(updates.len(), 2);
    g.function("train", [], [], updates);
    let module = g.lower(&"m:2".parse().unwrap(), &"d:m".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    session.call_named("train", &[]).unwrap();
    for name in ["a", "b"] {
        assert_eq!(session.read(name).unwrap(), arr1(&[0.0_f32; 2]).into(), "{name}");
    }
    let twice = [0.5, 0.25].map(|rate| Sgd::new(rate).apply_grads(&[(grads[0], a)])).concat();
    g.function("twice", [], [], twice);
    let report = g.check().unwrap_err().to_string();
    assert!(report.contains("variable a is updated twice"), "{report}");
}

/// Updates of stacked variables were clipped by the root mean square over the stack. There are no
/// stacked dims here: what would be a stack is as many variables, and the large gradient of one
/// does not change what becomes of the other.
#[test]
fn d20_clipping_knows_one_variable_at_a_time() {
    let after = |large: f64| {
        let g = mesh_ops::graph();
        let d = dim("d", 4);
        let [a, b] = ["a", "b"].map(|name| g.variable(name, [d], F32, Initializer::ONES));
        let x = g.input("x", [d], F32);
        let loss = (x * a.value() + x * b.value() * large).sum_all();
        let train = g.function("train", [x], [], Adafactor::default().minimize(loss));
        let module = g.lower(&"m:2".parse().unwrap(), &"d:m".parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        // The second gradient is larger than the average of squares expects, so it is clipped.
        for x in [1.0_f32, 100.0] {
            let [] = session.call(&train, [arr1(&[x; 4]).view().into()]).unwrap();
        }
        session.read("a").unwrap()
    };
    assert_eq!(after(1.0), after(1000.0));
}

/// Momentum used the average from before the step, or raced with its update. Here reads see the
/// call's start and the new average is a tensor of its own: of the first update a tenth is made.
#[test]
fn d22_momentum_uses_the_new_average() {
    let step = |beta1: f64| {
        let g = mesh_ops::graph();
        let d = dim("d", 4);
        let w = g.variable("w", [d], F32, Initializer::ONES);
        let optimizer = Adafactor { beta1, ..Adafactor::default() };
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
}
