//! Optimizers around optimizers, rates that rise and fall, and clipping by units, in configurations.

use mesh_ops::prelude::*;
use mesh_optimize::{OptimizerConfig, Schedule, get_optimizer};
use ndarray::arr0;
use serde_json::{Value, json};

fn read(value: &Value) -> Result<OptimizerConfig, String> {
    OptimizerConfig::from_json(&value.to_string()).map_err(|error| error.to_string())
}

/// A wrapper of AdamW, with an option.
fn around(name: &str, option: &str, value: Value) -> Value {
    json!({"opt_name": name, "lr": 0.1, option: value, "inner": {"opt_name": "adamw", "beta2": 0.9}})
}

#[test]
fn wrappers_are_read_with_what_they_are_around() {
    let table = [
        (around("ema", "debias", json!(false)), "ema", "debias: false"),
        (around("lookahead", "period", json!(7)), "lookahead_slow", "period: 7"),
        (around("schedule_free", "power", json!(1.5)), "schedule_free_z", "power: 1.5"),
        (around("skip_not_finite", "most", json!(0)), "not_skipped", "most: 0"),
        (around("accumulate", "calls", json!(3)), "accumulated", "calls: 3"),
        (around("sam", "rho", json!(0.2)), "adam_v", "rho: 0.2"),
    ];
    for (config, slot, text) in table {
        let config = read(&config).unwrap();
        let optimizer = config.optimizer();
        for slot in [slot, "adam_m"] {
            assert!(optimizer.slot_names().contains(&slot), "{:?}", optimizer.slot_names());
        }
        let all = format!("{config:?}");
        assert!(all.contains(text) && all.contains("beta2: 0.9"), "no {text} in {all}");
    }
    let nested =
        json!({"opt_name": "ema", "lr": 0.1, "inner": around("accumulate", "calls", json!(2))});
    let problem = read(&nested).unwrap_err();
    assert_eq!(
        problem,
        "inner: lr: there is no such key; legal are opt_name, inner, calls and mean"
    );
}

#[test]
fn wrong_options_are_told() {
    let lr_decay = |more: Value| {
        let mut config = json!({"opt_name": "sgd", "lr": 0.1, "train_steps": 100});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let table = [
        (
            around("ema", "decay", json!(1)),
            "decay: 1 is not legal; legal is a number from 0 to below 1",
        ),
        (
            around("lookahead", "period", json!(0)),
            "period: 0 is not legal; legal is a whole number from 1",
        ),
        (around("lookahead", "period", json!(1.5)), "period: 1.5 is not legal"),
        (
            around("accumulate", "calls", json!(0)),
            "calls: 0 is not legal; legal is a whole number from 1",
        ),
        (around("sam", "rho", json!(-1)), "rho: -1 is not legal"),
        (
            around("schedule_free", "beta", json!(0)),
            "beta: 0 is not legal; legal is a number above 0, to 1",
        ),
        (
            json!({"opt_name": "prodigy", "lr": 1, "d0": 0}),
            "d0: 0 is not legal; legal is a number above 0",
        ),
        (json!({"opt_name": "sam", "lr": 0.1}), "inner: sam is around another optimizer"),
        (lr_decay(json!({"adaptive_clipping": 0})), "adaptive_clipping: 0 is not legal"),
        (
            lr_decay(json!({"lr_decay": "cosine", "lr_decay_steps": 3})),
            "lr_decay_steps: only lr_decays of \"stable\" and \"restarts\" have it",
        ),
        (
            lr_decay(json!({"lr_decay": "stable", "lr_decay_growth": 2})),
            "lr_decay_growth: only a lr_decay of \"restarts\" has it",
        ),
        (
            lr_decay(json!({"lr_decay": "restarts", "lr_decay_growth": 0.5})),
            "lr_decay_growth: 0.5 is not legal; legal is a number from 1 on",
        ),
        (
            lr_decay(json!({"lr_decay": "stable", "lr_decay_steps": 60, "warmup_steps": 50})),
            "lr_decay_steps: 60 and 50 of warm-up are more than all 100",
        ),
        (
            lr_decay(json!({"lr_decay": "one_cycle", "warmup_steps": 50})),
            "warmup_steps: a lr_decay of \"one_cycle\" has its own",
        ),
    ];
    for (config, problem) in table {
        let error = read(&config).unwrap_err();
        assert!(error.contains(problem), "no {problem:?} in {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// The rates of a configuration, by the formulas of the decays.
#[test]
fn decays_are_read() {
    let rate = |decay: Value| -> Schedule {
        let mut config = json!({"opt_name": "sgd", "lr": 0.5, "train_steps": 100});
        config.as_object_mut().unwrap().extend(decay.as_object().unwrap().clone());
        read(&config).unwrap().learning_rate()
    };
    let half = |height: f64| 0.05 + 0.45 * height;
    let table = [
        (rate(json!({"lr_decay": "exponential"})), [(0.0, 0.5), (50.0, 0.5 * 0.1f64.sqrt())]),
        (rate(json!({"lr_decay": "stable"})), [(80.0, 0.5), (85.0, half(0.5))]),
        (
            rate(json!({"lr_decay": "stable", "lr_decay_steps": 40, "warmup_steps": 10})),
            [(5.0, 0.25), (70.0, half(0.5))],
        ),
        (
            rate(json!({"lr_decay": "restarts", "lr_decay_steps": 10, "lr_decay_growth": 2})),
            [(5.0, half(0.5)), (20.0, half(0.5))],
        ),
        (rate(json!({"lr_decay": "one_cycle"})), [(0.0, 0.02), (29.0, 0.5)]),
    ];
    for (number, (rate, points)) in table.into_iter().enumerate() {
        let g = mesh_ops::graph();
        let step = g.input("step", [], F64);
        let f = g.function("f", [step], [rate.at_step(step)], []);
        let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        for (t, want) in points {
            let [got] = session.call(&f, [arr0(t).view().into()]).unwrap();
            let got = got.item().unwrap();
            assert!((got - want).abs() <= 1e-12, "{number} at {t}: {got} not {want}");
        }
    }
}

/// What `get_optimizer` makes of SAM and of clipping by units: the second gradient, clipped.
#[test]
fn get_optimizer_takes_the_optimizers_gradients() {
    let run = |more: Value| {
        let mut config = json!({"opt_name": "sgd", "lr": 0.5});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let config = read(&config).unwrap();
        let g = mesh_ops::graph();
        let w = g.variable("w", [dim("x", 2)], F64, Initializer::ONES);
        let loss = w.value().square().square().sum_all() * 0.25;
        let (_, updates, _) = get_optimizer(&g, loss, &config, None);
        let train = g.function("train", [], [], updates);
        let module = g.lower(&"d:2".parse().unwrap(), &"x:d".parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let [] = session.call(&train, []).unwrap();
        session.read("w").unwrap().to_f64()[[0]]
    };
    // The gradient of x^4 / 4 is x^3: 1 at 1, and the direction away is 1/sqrt(2) in both.
    let away = (1.0 + 0.1 * 0.5f64.sqrt()).powi(3);
    let inner = json!({"opt_name": "sgd"});
    let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-12, "{got} not {want}");
    close(run(json!({})), 0.5);
    close(run(json!({"opt_name": "sam", "rho": 0.1, "inner": inner})), 1.0 - 0.5 * away);
    close(run(json!({"adaptive_clipping": 0.2})), 1.0 - 0.5 * 0.2);
}
