//! Numbers of optimizers that change with the step, from code and from configurations.

use super::harness::{Problem, within};
use super::listed::config;
use mesh_ops::prelude::*;
use mesh_optimize::schedule::linear_decay;
use mesh_optimize::{AdamW, Momentum, OptimizerConfig, WeightDecay, optimizers};
use serde_json::{Value, json};

/// Of f64: a product that is rounded once more.
const ROUNDING: f64 = 1e-14;

/// What is left of rounding where a constant is computed from the step, after four steps that divide by roots.
const TOLERANCE: f64 = 1e-11;

fn problem() -> Problem {
    let gradient =
        |step: usize| (0..8).map(|i| ((step * 5 + i * 3) % 7) as f64 / 8.0 - 0.4).collect();
    Problem {
        dims: vec![dim("rows", 4), dim("cols", 2)],
        dtype: F64,
        start: (0..8).map(|i| i as f64 / 4.0 - 1.1).collect(),
        grads: (0..4).map(gradient).collect(),
    }
}

/// From `from` to `to` in three steps.
fn at(from: f64, to: f64, step: usize) -> f64 {
    from + (to - from) * (step.min(3) as f64 / 3.0)
}

/// Momentum whose fraction and decay change, against its formula.
#[test]
fn momentum_and_decay_follow_the_step() {
    let (problem, rate) = (problem(), 0.1);
    let optimizer = Momentum {
        weight_decay: WeightDecay::coupled(linear_decay(0.3, 0.0, 3)),
        ..Momentum::new(rate, linear_decay(0.5, 0.9, 3))
    };
    let (mut w, mut v) = (problem.start.clone(), vec![0.0; 8]);
    let steps = problem.grads.iter().enumerate().map(|(step, grad)| {
        for i in 0..8 {
            v[i] = at(0.5, 0.9, step) * v[i] + grad[i] + at(0.3, 0.0, step) * w[i];
            w[i] -= rate * v[i];
        }
        w.clone()
    });
    let want: Vec<_> = steps.collect();
    for (mesh, layout) in [("", ""), ("d:2", "batch:d;slots/*:d")] {
        let got = problem.run(&optimizer, mesh, layout);
        got.values.iter().zip(&want).for_each(|(got, want)| within(ROUNDING, got, want, layout));
    }
}

/// AdamW whose first moment's decay changes, against its formula: the bias is corrected by the decay of the
/// step, as optax's `inject_hyperparams` has it.
#[test]
fn bias_is_corrected_by_the_decay_of_the_step() {
    let problem = problem();
    let optimizer =
        AdamW { beta1: linear_decay(0.9, 0.6, 3), ..AdamW::new(0.05).weight_decay(0.0) };
    let (mut w, mut m, mut v) = (problem.start.clone(), vec![0.0; 8], vec![0.0; 8]);
    let got = problem.run(&optimizer, "", "");
    for (step, grad) in problem.grads.iter().enumerate() {
        let (beta, t) = (at(0.9, 0.6, step), step as i32 + 1);
        for i in 0..8 {
            m[i] = beta * m[i] + (1.0 - beta) * grad[i];
            v[i] = 0.999 * v[i] + 0.001 * grad[i] * grad[i];
            let root = (v[i] / (1.0 - 0.999f64.powi(t))).sqrt();
            w[i] -= 0.05 * m[i] / (1.0 - beta.powi(t)) / (root + 1e-8);
        }
        within(TOLERANCE, &got.values[step], &w, "adamw");
    }
}

/// Every option that may change takes its default as a change that is none, and refuses changes that make no
/// sense.
#[test]
fn every_number_that_may_change_is_read() {
    let mut changing = 0;
    for entry in optimizers() {
        let name = entry.name();
        let train = |config: &Value| {
            let config = OptimizerConfig::from_json(&config.to_string());
            let config = config.unwrap_or_else(|error| panic!("{name}: {error}"));
            problem().run(&*config.optimizer(), "", "")
        };
        for option in entry.options() {
            if !option.legal.contains("{from, to, steps}") {
                continue;
            }
            changing += 1;
            let with = |value: Value| {
                let mut config = config(entry);
                config[option.name] = value;
                config
            };
            // Where the default is no number, another one will do.
            let number: f64 = option.default.parse().unwrap_or(0.9);
            let plain = train(&with(json!(number)));
            let same = json!({"from": number, "to": number, "steps": 2});
            for (got, want) in train(&with(same)).values.iter().zip(&plain.values) {
                within(TOLERANCE, got, want, &format!("{name}: {}", option.name));
            }
            for wrong in [
                json!({"from": -1.0, "to": number, "steps": 2}),
                json!({"from": number, "to": number, "steps": 0}),
                json!({"from": number, "to": number}),
                json!({"from": number, "to": number, "steps": 2, "step": 2}),
            ] {
                let error = OptimizerConfig::from_json(&with(wrong).to_string()).unwrap_err();
                let said = format!("{}: ", option.name);
                assert!(error.to_string().starts_with(&said), "{name}: {error}");
            }
        }
    }
    assert!(changing > 50, "{changing} options may change");
}
