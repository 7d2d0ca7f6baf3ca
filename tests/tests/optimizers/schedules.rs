//! Learning rates at single steps, against the formulas of their sources in plain Rust.

use mesh_ops::prelude::*;
use mesh_optimize::schedule::*;
use mesh_optimize::{Optimizer, Schedule, Sgd};
use ndarray::arr0;
use std::f64::consts::PI;

/// f64 arithmetic of a dozen operations; powers go through logarithms.
const TOLERANCE: f64 = 1e-12;

/// The rate at each step, on a mesh where it is replicated.
fn rates(rate: &Schedule, steps: &[i64]) -> Vec<f64> {
    let g = mesh_ops::graph();
    let step = g.input("step", [], F64);
    let f = g.function("f", [step], [rate.at_step(step)], []);
    let module = g.lower(&"d:2".parse().unwrap(), &Layout::default()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let rate = |&t: &i64| {
        let [rate] = session.call(&f, [arr0(t as f64).view().into()]).unwrap();
        rate.item().unwrap()
    };
    steps.iter().map(rate).collect()
}

#[track_caller]
fn check(rate: Schedule, steps: &[i64], formula: impl Fn(f64) -> f64) {
    assert!(steps.len() >= 12, "{}", steps.len());
    for (t, got) in steps.iter().zip(rates(&rate, steps)) {
        let want = formula(*t as f64);
        assert!((got - want).abs() <= TOLERANCE * want.abs().max(1e-3), "t {t}: {got} not {want}");
    }
}

#[track_caller]
fn close(rate: Schedule, points: &[(i64, f64)]) {
    let steps: Vec<_> = points.iter().map(|(t, _)| *t).collect();
    for ((t, want), got) in points.iter().zip(rates(&rate, &steps)) {
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1e-3), "t {t}: {got} not {want}");
    }
}

/// Steps around the borders of a schedule of 100 steps, and far beyond its end.
const STEPS: &[i64] = &[0, 1, 2, 9, 10, 11, 49, 50, 51, 98, 99, 100, 101, 150, 1_000, 1_000_000];

#[test]
fn constants() {
    check(constant(0.25), STEPS, |_| 0.25);
}

#[test]
fn polynomials() {
    for power in [1.0, 0.5, 2.0, 3.5] {
        let formula = |t: f64| {
            let gone = if t < 100.0 { t } else { 100.0 };
            0.3 * (1.0 - gone / 100.0f64).powf(power)
                + 0.1 * (1.0 - (1.0 - gone / 100.0).powf(power))
        };
        check(polynomial_decay(0.3, 0.1, 100, power), STEPS, formula);
    }
    // A rising line is a linear decay, too.
    check(linear_decay(0.0, 1.0, 100), STEPS, |t| t.min(100.0) / 100.0);
}

#[test]
fn polynomials_in_cycles() {
    let formula = |t: f64| {
        let mut end = 10.0;
        while end < t {
            end += 10.0;
        }
        (0.5 - 0.1) * (1.0 - t / end) * (1.0 - t / end) + 0.1
    };
    let steps = [0, 1, 5, 9, 10, 11, 19, 20, 21, 30, 31, 99, 100, 101];
    check(cyclic_polynomial_decay(0.5, 0.1, 10, 2.0), &steps, formula);
}

#[test]
fn cosines() {
    for alpha in [0.0, 0.1, 1.0] {
        let formula = |t: f64| {
            let half = 0.5 * (1.0 + (PI * t.min(100.0) / 100.0).cos());
            0.02 * ((1.0 - alpha) * half + alpha)
        };
        check(cosine_decay(0.02, 100, alpha), STEPS, formula);
    }
}

#[test]
fn inverse_square_roots() {
    check(inverse_square_root(100), STEPS, |t| if t < 100.0 { 0.1 } else { 1.0 / t.sqrt() });
    // Vaswani et al. 2017, section 5.3, where steps are counted from 1.
    let paper = |t: f64| {
        let step = t + 1.0;
        512f64.powf(-0.5) * step.powf(-0.5).min(step * 50f64.powf(-1.5))
    };
    let factors = [constant(512f64.powf(-0.5)), linear_warmup(50), inverse_square_root(50)];
    check(offset(product(factors), -1), STEPS, paper);
}

#[test]
fn noams() {
    let formula = |t: f64| {
        let falls = ((200.0 - t) / 20.0).clamp(0.0, 1.0);
        2.0 / t.max(50.0).sqrt() * falls
    };
    let steps = [0, 1, 49, 50, 51, 100, 179, 180, 181, 190, 199, 200, 201, 1_000];
    check(noam(2.0, 50, 200, 0.1), &steps, formula);
    check(noam(2.0, 50, 200, 0.0), &steps, |t| 2.0 / t.max(50.0).sqrt());
}

#[test]
fn slanted_triangles() {
    let formula = |t: f64| {
        let cut = 9.0;
        let part = if t < cut { t / cut } else { 1.0 - (t - cut) / (cut * (1.0 / 0.1 - 1.0)) };
        0.01 * (1.0 + part.max(0.0) * 31.0) / 32.0
    };
    let steps = [0, 1, 5, 8, 9, 10, 50, 80, 89, 90, 91, 95, 96, 1_000];
    check(slanted_triangular(0.01, 95, 0.1, 32.0), &steps, formula);
}

#[test]
fn pieces() {
    let formula = |t: f64| match t as u64 {
        0..50 => 1.0,
        50..100 => 0.1,
        _ => 0.01,
    };
    check(piecewise_constant(1.0, &[(50, 0.1), (100, 0.01)]), STEPS, formula);
    check(piecewise_constant(1.0, &[]), STEPS, |_| 1.0);
}

#[test]
fn lines_up_and_down() {
    check(linear_warmup(100), STEPS, |t| (t / 100.0).min(1.0));
    check(linear_warmup(0), STEPS, |_| 1.0);
    let falls = |t: f64| if t > 100.0 { 0.0 } else { ((100.0 - t) / 50.0).min(1.0) };
    check(linear_to_zero(100, 50), STEPS, falls);
}

#[test]
fn warm_up_holds_back_the_decayed_rate() {
    // 0 at first; at step 10 the rate is that of 10 steps of decay.
    let decayed = |t: f64| 1.0 - 0.9 * t.min(100.0) / 100.0;
    let blended = |t: f64| {
        let is_warm_up = if t < 10.0 { 1.0 } else { 0.0 };
        (1.0 - is_warm_up) * decayed(t) + is_warm_up * decayed(t) * t / 10.0
    };
    check(with_warmup(linear_decay(1.0, 0.1, 100), 10), STEPS, blended);
    check(with_warmup(0.5, 0), STEPS, |_| 0.5);
}

#[test]
fn products_and_offsets() {
    let formula = |t: f64| {
        let t = t - 10.0;
        3.0 * (1.0 - t.clamp(0.0, 40.0) / 40.0) / t.max(20.0).sqrt()
    };
    let factors = [constant(3.0), linear_decay(1.0, 0.0, 40), inverse_square_root(20)];
    check(offset(product(factors), 10), STEPS, formula);
    check(product([]), STEPS, |_| 1.0);
}

/// Mesh TensorFlow's own test of `linear_decay_learning_rate`.
#[test]
fn published_points() {
    close(linear_decay(0.001, 0.0, 100), &[(0, 0.001), (50, 0.0005), (100, 0.0)]);
    let later = offset(linear_decay(0.001, 0.0, 100 - 50), 50);
    close(later, &[(0, 0.001), (40, 0.001), (50, 0.001), (75, 0.0005), (100, 0.0)]);
    let factors = [constant(0.001), linear_to_zero(100, 100)];
    close(product(factors), &[(0, 0.001), (50, 0.0005), (100, 0.0)]);
}

#[test]
fn rounded_once() {
    let g = mesh_ops::graph();
    let rate = with_warmup(cosine_decay(0.3, 7, 0.1), 3);
    let w = g.variable("w", [dim("x", 2)], F32, Initializer::ONES);
    let updates = Sgd::new(rate.clone()).minimize(w.value().sum_all());
    let seen = [rate.at(&g, F32), rate.at(&g, F64)];
    let train = g.function("train", [], seen, updates);
    let module = g.lower(&"d:2".parse().unwrap(), &"x:d".parse().unwrap()).unwrap();
    let mut session = Session::threads(&module, 0).unwrap();
    let mut weight = 1f32;
    for t in 0..12 {
        let [narrow, wide] = session.call(&train, []).unwrap();
        let rounded = wide.item().unwrap() as f32;
        assert_eq!(narrow.item().unwrap() as f32, rounded, "step {t}");
        // The optimizer uses that rate at the step of the call.
        weight -= rounded;
        assert_eq!(session.read("w").unwrap().as_f32().unwrap()[[0]], weight, "step {t}");
    }
}

#[test]
fn impossible_schedules_are_errors() {
    let table: [(Schedule, &[&str]); 21] = [
        ((-0.1).into(), &["learning rate: rate -0.1", "finite numbers from 0 on"]),
        (f64::NAN.into(), &["learning rate: rate NaN", "finite numbers from 0 on"]),
        (f64::INFINITY.into(), &["learning rate: rate inf"]),
        (linear_decay(-0.1, 0.0, 9), &["polynomial_decay: rate -0.1"]),
        (linear_decay(0.1, f64::NAN, 9), &["polynomial_decay: end NaN"]),
        (cosine_decay(0.1, 9, -0.5), &["cosine_decay: alpha -0.5"]),
        (noam(-1.0, 10, 100, 0.1), &["noam: rate -1"]),
        (slanted_triangular(0.1, 100, 0.1, 0.0), &["slanted_triangular: ratio 0", "positive"]),
        (piecewise_constant(1.0, &[(9, -0.1)]), &["piecewise_constant: rate -0.1"]),
        (product([constant(-2.0), linear_warmup(5)]), &["learning rate: rate -2"]),
        (with_warmup(-0.5, 5), &["learning rate: rate -0.5"]),
        (linear_decay(0.1, 0.0, 0), &["polynomial_decay", "0 steps", "1 or more"]),
        (polynomial_decay(0.1, 0.0, 9, -1.0), &["power -1", "positive"]),
        (cyclic_polynomial_decay(0.1, 0.0, 0, 1.0), &["cyclic_polynomial_decay", "0 steps"]),
        (cosine_decay(0.1, 0, 0.0), &["cosine_decay", "0 steps"]),
        (inverse_square_root(0), &["inverse_square_root", "0 steps"]),
        (noam(1.0, 10, 100, 1.5), &["noam", "fraction 1.5", "0 to 1"]),
        (slanted_triangular(0.1, 5, 0.1, 32.0), &["slanted_triangular", "0.1 of 5 steps"]),
        (slanted_triangular(0.1, 100, 1.0, 32.0), &["slanted_triangular", "1 of 100 steps"]),
        (piecewise_constant(1.0, &[(9, 0.1), (9, 0.2)]), &["step 9 comes after step 9"]),
        (linear_to_zero(100, 0), &["linear_to_zero", "0 steps"]),
    ];
    for (rate, words) in table {
        let g = mesh_ops::graph();
        // Three variables ask for the rate, and it is told once.
        let x = g.input("x", [dim("x", 4)], F32);
        let loss = x.dense(dim("h", 3), "one").dense(dim("y", 2), "two").mean();
        let updates = Sgd::new(rate).minimize(loss);
        g.function("f", [x], [], updates);
        let report = g.check().unwrap_err();
        assert_eq!(report.issues.len(), 1, "{report}");
        let report = report.to_string();
        for word in words.iter().chain(&["tests/tests/optimizers/schedules.rs:"]) {
            assert!(report.contains(word), "no {word:?} in {report}");
        }
    }
}
