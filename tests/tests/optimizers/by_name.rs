//! Optimizers picked by the names of variables.

use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, ByName, Delayed, Optimizer, Sgd};

const NAMES: [&str; 4] = ["encoder/kernel", "encoder/bias", "decoder/kernel", "decoder/bias"];

/// The variables after a step from ones, with gradients of 1.
fn after(optimizer: &dyn Optimizer) -> Result<[f64; 4], String> {
    let g = mesh_ops::graph();
    let d = dim("d", 2);
    let variables = NAMES.map(|name| g.variable(name, [d], F32, Initializer::ONES));
    let loss = variables.iter().map(|v| v.value().sum_all()).reduce(|a, b| a + b).unwrap();
    let train = g.function("train", [], [], optimizer.minimize(loss));
    let module = g.lower(&"m:2".parse().unwrap(), &"d:m".parse().unwrap());
    let mut session = Session::threads(&module.map_err(|report| report.to_string())?, 0).unwrap();
    let [] = session.call(&train, []).unwrap();
    Ok(NAMES.map(|name| session.read(name).unwrap().to_f64()[[0]]))
}

#[test]
fn the_first_pattern_found_decides() {
    let rates =
        ByName::new(Sgd::new(0.5)).with("bias$", Sgd::new(0.25)).with("coder", Sgd::new(0.125));
    assert_eq!(after(&rates).unwrap(), [0.875, 0.75, 0.875, 0.75]);
    let turned =
        ByName::new(Sgd::new(0.5)).with("^enc", Sgd::new(0.125)).with("bias$", Sgd::new(0.25));
    assert_eq!(after(&turned).unwrap(), [0.875, 0.875, 0.5, 0.75]);
    assert_eq!(after(&ByName::new(Sgd::new(0.5))).unwrap(), [0.5; 4]);
}

#[test]
fn frozen_variables_keep_their_value() {
    let frozen = ByName::new(Sgd::new(0.5)).frozen("^encoder/").with("bias", Sgd::new(0.25));
    assert_eq!(after(&frozen).unwrap(), [1.0, 1.0, 0.5, 0.75]);
}

#[test]
fn whole_optimizers_differ() {
    let of_rate = |lr| AdamWeightDecay { epsilon: 0.0.into(), ..AdamWeightDecay::standard(lr) };
    let mixed = ByName::new(of_rate(0.5).weight_decay(0.0))
        .with("kernel", of_rate(0.25).weight_decay(0.5))
        .with("decoder", ByName::new(Sgd::new(0.125)));
    // The first update of AdamW is 1, plus the weight decay.
    let got = after(&mixed).unwrap();
    for (got, want) in got.iter().zip([1.0 - 0.25 * 1.5, 0.5, 1.0 - 0.25 * 1.5, 0.875]) {
        assert!((got - want).abs() < 1e-6, "{got} not {want}");
    }
}

#[test]
fn patterns_are_checked() {
    let strange = ByName::new(Sgd::new(0.5)).with("(", Sgd::new(0.25));
    let report = after(&strange).unwrap_err();
    assert_eq!(report.matches("is no regular expression").count(), 1, "{report}");
    assert!(report.contains("tests/optimizers/by_name.rs"), "{report}");
    let adam = AdamWeightDecay { exclude: vec!["[".to_owned()], ..AdamWeightDecay::new(0.1) };
    let report = after(&adam).unwrap_err();
    assert!(report.contains("exclude: \"[\" is no regular expression"), "{report}");

    let g = mesh_ops::graph();
    let a = g.variable("a", [dim("d", 2)], F32, Initializer::ONES);
    ByName::new(Sgd::new(0.5)).frozen("z").minimize(a.value().sum_all());
    assert_eq!(g.warnings()[0].subject, "z");
    assert!(g.warnings()[0].message.contains("found in no variable's name"));
}

/// All variables of a delayed optimizer share one draw, also if a rule selected them.
#[test]
fn a_rule_hands_its_variables_over_together() {
    let stale = || ByName::new(Delayed::new(Sgd::new(1.0), 3)).frozen("encoder");
    let g = mesh_ops::graph();
    let d = dim("d", 2);
    let variables = NAMES.map(|name| g.variable(name, [d], F32, Initializer::ZEROS));
    let x = g.input("x", [d], F32);
    let loss = variables.iter().map(|v| (x * v.value()).sum_all()).reduce(|a, b| a + b).unwrap();
    let train = g.function("train", [x], [], stale().minimize(loss));
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 7).unwrap();
    for step in 0..20 {
        let [] = session.call(&train, [ndarray::arr1(&[step as f32; 2]).view().into()]).unwrap();
        let [a, b] = [2, 3].map(|i| session.read(NAMES[i]).unwrap());
        assert_eq!(a, b);
    }
}
