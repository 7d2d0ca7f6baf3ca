//! Schedules against the rates of optax and PyTorch at 200 steps. See `tests/golden/optimizers/`.

use mesh_ops::prelude::*;
use mesh_optimize::Schedule;
use mesh_optimize::schedule::{
    CosineRestarts, Curve, Exponential, OneCycle, ReduceOnPlateau, WarmupStableDecay, offset,
};
use mesh_optimize::training::Better;
use ndarray::arr0;
use serde_json::Value;

/// A dozen operations in f64; powers go through logarithms.
const TOLERANCE: f64 = 1e-12;
/// An angle of 200 steps is rounded where the cosine is steepest; files have fourteen digits.
const LEAST: f64 = 1e-2;

fn golden(file: &str) -> Value {
    let path = format!("{}/golden/optimizers/{file}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Compares each schedule of a file.
fn agree(file: &str, table: Vec<(&str, Schedule)>) {
    let golden = golden(file);
    assert_eq!(golden["rates"].as_object().unwrap().len(), table.len());
    let g = mesh_ops::graph();
    let step = g.input("step", [], F64);
    let rates: Vec<_> = table.iter().map(|(_, rate)| rate.at_step(step)).collect();
    g.declare_function("rates", &[step], &rates, Vec::new());
    let module = g.lower(&"d:2".parse().unwrap(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    for t in 0..200 {
        let step = arr0(t as f64).into_dyn();
        let got = session.call_named("rates", &[("step", step.view().into())]).unwrap();
        for ((name, _), (_, got)) in table.iter().zip(got.iter()) {
            let (got, want) = (got.item().unwrap(), numbers(&golden["rates"][name])[t]);
            let off = (got - want).abs();
            assert!(off <= TOLERANCE * want.abs().max(LEAST), "{name} at {t}: {got} not {want}");
        }
    }
}

#[test]
fn schedules_are_optaxs() {
    let exponential = Exponential::new(0.3, 20, 0.7);
    let sgdr = CosineRestarts { end: 0.05, ..CosineRestarts::new(0.5, 20) };
    let wsd = |warmup, steps, decay, end, curve| -> Schedule {
        WarmupStableDecay { end, curve, ..WarmupStableDecay::new(0.4, warmup, steps, decay) }.into()
    };
    let linear = OneCycle {
        rise: 0.25,
        back: Some(0.7),
        start_divisor: 10.0,
        end_divisor: 100.0,
        ..OneCycle::optax_linear(0.5, 180)
    };
    let table = vec![
        ("exponential", exponential.into()),
        (
            "exponential_staircase",
            Exponential { staircase: true, end: Some(0.05), ..exponential }.into(),
        ),
        ("exponential_begin", offset(exponential, 15)),
        (
            "exponential_rising",
            Exponential { end: Some(0.2), ..Exponential::new(0.01, 20, 1.5) }.into(),
        ),
        ("cosine_onecycle", OneCycle::optax_cosine(0.5, 180).into()),
        ("linear_onecycle", linear.into()),
        ("sgdr", CosineRestarts { growth: 2.0, ..sgdr }.into()),
        ("sgdr_shrinking", CosineRestarts { steps: 25, shrink: 0.8, ..sgdr }.into()),
        ("wsd_root", wsd(20, 150, 50, 0.0, Curve::Root)),
        ("wsd_linear", wsd(0, 150, 40, 0.1, Curve::Linear)),
        ("wsd_cosine", wsd(20, 180, 160, 0.1, Curve::Cosine)),
        ("wsd_exponential", wsd(10, 150, 50, 0.004, Curve::Exponential)),
    ];
    agree("schedules_optax", table);
}

#[test]
fn schedules_are_pytorchs() {
    let linear = OneCycle {
        rise: 0.22,
        curve: Curve::Linear,
        start_divisor: 10.0,
        end_divisor: 100.0,
        ..OneCycle::new(0.5, 200)
    };
    let growing = CosineRestarts { growth: 3.0, end: 0.02, ..CosineRestarts::new(0.5, 9) };
    let table = vec![
        ("one_cycle", OneCycle::new(0.5, 200).into()),
        ("one_cycle_linear", linear.into()),
        ("one_cycle_three", OneCycle { back: Some(0.6), ..OneCycle::new(0.5, 200) }.into()),
        ("restarts", CosineRestarts::new(0.5, 30).into()),
        ("restarts_growing", growing.into()),
        ("exponential", Exponential::new(0.5, 1, 0.97).into()),
        ("step", Exponential { staircase: true, ..Exponential::new(0.5, 30, 0.4) }.into()),
    ];
    agree("schedules_torch", table);
}

/// The factor after each observation, from the state that a session keeps.
#[test]
fn plateaus_are_optaxs_and_pytorchs() {
    let half = ReduceOnPlateau { factor: 0.5, patience: 3, ..ReduceOnPlateau::default() };
    let cases = [
        ("schedules_optax", "plateau", ReduceOnPlateau { relative: 1e-2, ..half.clone() }),
        (
            "schedules_optax",
            "plateau_options",
            ReduceOnPlateau {
                factor: 0.3,
                patience: 2,
                relative: 0.0,
                absolute: 0.02,
                cooldown: 4,
                calls: 2,
                least: 0.01,
                ..half.clone()
            },
        ),
        ("schedules_torch", "plateau", ReduceOnPlateau { relative: 1e-2, ..half.clone() }),
        (
            "schedules_torch",
            "plateau_higher",
            ReduceOnPlateau {
                better: Better::Higher,
                patience: 2,
                relative: 0.0,
                absolute: 0.05,
                cooldown: 3,
                least: 0.1,
                ..half
            },
        ),
    ];
    for (file, name, plateau) in cases {
        let golden = golden(file);
        let g = mesh_ops::graph();
        let metric = g.input("metric", [], F64);
        let observe = g.function("observe", [metric], [], plateau.observe(metric));
        let rate = g.function("rate", [], [plateau.rate(2.0).at(&g, F64)], []);
        let module = g.lower(&"d:2".parse().unwrap(), &Layout::default()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let scales = numbers(&golden["scales"][name]);
        let mut reductions = 0;
        for (i, value) in numbers(&golden["metrics"]).into_iter().enumerate() {
            let [] = session.call(&observe, [arr0(value).view().into()]).unwrap();
            let [got] = session.call(&rate, []).unwrap();
            let (got, want) = (got.item().unwrap(), 2.0 * scales[i]);
            let what = format!("{file} {name}, observation {i}: {got} not {want}");
            assert!((got - want).abs() <= TOLERANCE * want, "{what}");
            reductions += usize::from(i > 0 && scales[i] < scales[i - 1]);
        }
        assert!(reductions >= 2, "{file} {name}: {reductions}");
    }
}

/// A metric that is no number does not improve, and does not become the best.
#[test]
fn no_number_is_no_improvement() {
    let plateau = ReduceOnPlateau { patience: 1, factor: 0.5, ..ReduceOnPlateau::default() };
    let g = mesh_ops::graph();
    let metric = g.input("metric", [], F32);
    let observe = g.function("observe", [metric], [], plateau.observe(metric));
    let module = g.lower(&Mesh::single(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let nan = f32::NAN;
    for (value, scale) in [(nan, 1.0), (3.0, 1.0), (nan, 1.0), (nan, 0.5), (2.0, 0.5), (2.0, 0.5)] {
        let [] = session.call(&observe, [arr0(value).view().into()]).unwrap();
        assert_eq!(session.read("plateau/scale").unwrap().item(), Some(scale));
    }
}
