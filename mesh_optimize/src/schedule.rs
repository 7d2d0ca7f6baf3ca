//! Learning rates that change with the step.
//!
//! A schedule is a function of the graph's step `t`, which is 0 in the first call that trains. It
//! is computed in f64 on every processor and rounded once. Schedules can be multiplied
//! ([`product`]), delayed ([`offset`]) and started with a warm-up ([`with_warmup`]).
//!
//! | schedule | rate at step t |
//! |---|---|
//! | [`constant`] | `rate` |
//! | [`polynomial_decay`] | `end + (rate - end) (1 - min(t, T) / T)^power` |
//! | [`cyclic_polynomial_decay`] | the same, `T` times the least whole number that makes it at least `t` |
//! | [`linear_decay`] | polynomial, power 1 |
//! | [`cosine_decay`] | `rate ((1 - a) (1 + cos(pi min(t, T) / T)) / 2 + a)` |
//! | [`inverse_square_root`] | `1 / sqrt(max(t, w))` |
//! | [`noam`] | `rate / sqrt(max(t, w)) min(1, (T - t) / (f T))` |
//! | [`slanted_triangular`] | up to `rate` in the first part of `T`, then down to `rate / ratio` |
//! | [`piecewise_constant`] | the rate of the piece that t is in |
//! | [`linear_warmup`] | `min(1, t / w)` |
//! | [`linear_to_zero`] | `min(1, (T - t) / d)`, at least 0 |
//!
//! ```
//! use mesh_optimize::{AdamW, schedule};
//!
//! // Up to 3e-4 in 100 steps, down to a tenth of it along a cosine by step 10,000.
//! let rate = schedule::with_warmup(schedule::cosine_decay(3e-4, 10_000, 0.1), 100);
//! let adam = AdamW::new(rate);
//! ```
//!
//! An argument that makes no sense, such as a decay over 0 steps or a rate below 0, is an error of the graph in which
//! the schedule is used.

use crate::LearningRate;
use crate::rate::problem as of_rate;
use mesh_core::graph::Tensor;
use mesh_ops::Ops;
use std::f64::consts::PI;

/// `rate` at every step.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::constant(0.1).at_step(g.scalar(7.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.1).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn constant(rate: f64) -> LearningRate {
    rate.into()
}

/// Goes from `rate` to `end` in `steps` steps: `end + (rate - end) (1 - t / steps)^power`. Stays at
/// `end`.
///
/// This is TensorFlow's `polynomial_decay` without `cycle`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::polynomial_decay(1.0, 0.0, 100, 2.0).at_step(g.scalar(50.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.25).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn polynomial_decay(rate: f64, end: f64, steps: u64, power: f64) -> LearningRate {
    let problem = from_to(rate, end).or_else(|| over_steps(steps)).or_else(|| raised_to(power));
    schedule("polynomial_decay", problem, move |t| {
        let left = 1.0 - t.clip(0.0, steps as f64) / steps as f64;
        raised(left, power) * (rate - end) + end
    })
}

/// A [`polynomial_decay`] that starts again from a lower rate each time it has reached `end`.
///
/// The rate is `end + (rate - end) (1 - t / T)^power`, where `T` is the smallest positive multiple
/// of `steps` that is at least `t`. This is TensorFlow's `polynomial_decay` with `cycle`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::cyclic_polynomial_decay(1.0, 0.0, 100, 1.0).at_step(g.scalar(150.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.25).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cyclic_polynomial_decay(rate: f64, end: f64, steps: u64, power: f64) -> LearningRate {
    let problem = from_to(rate, end).or_else(|| over_steps(steps)).or_else(|| raised_to(power));
    schedule("cyclic_polynomial_decay", problem, move |t| {
        let t = t.clip(0.0, f64::INFINITY);
        let cycles = t / steps as f64;
        let ceiling = -(-cycles).floor();
        let whole = ceiling.clip(1.0, f64::INFINITY);
        raised(1.0 - cycles / whole, power) * (rate - end) + end
    })
}

/// Goes from `rate` to `end` along a line in `steps` steps and stays there: [`polynomial_decay`] of
/// power 1.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::linear_decay(1.0, 0.0, 100).at_step(g.scalar(25.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.75).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn linear_decay(rate: f64, end: f64, steps: u64) -> LearningRate {
    polynomial_decay(rate, end, steps, 1.0)
}

/// Goes from `rate` to `alpha rate` along half a cosine in `steps` steps and stays there.
///
/// Loshchilov & Hutter 2017 without restarts; TensorFlow's `cosine_decay`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::cosine_decay(1.0, 100, 0.1).at_step(g.scalar(50.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.55).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cosine_decay(rate: f64, steps: u64, alpha: f64) -> LearningRate {
    let problem = of_rate("rate", rate).or_else(|| of_rate("alpha", alpha));
    schedule("cosine_decay", problem.or_else(|| over_steps(steps)), move |t| {
        let gone = t.clip(0.0, steps as f64) / steps as f64;
        (((gone * PI).cos() + 1.0) * (0.5 * (1.0 - alpha)) + alpha) * rate
    })
}

/// `1 / sqrt(max(t, steps))`, which is constant for the first `steps` steps. Mesh TensorFlow's
/// `truncated_rsqrt`.
///
/// Multiplied by [`linear_warmup`] over the same steps and by `width^-0.5`, it is the rate of
/// Vaswani et al. 2017, section 5.3, where steps are counted from 1.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::inverse_square_root(100).at_step(g.scalar(400.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.05).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn inverse_square_root(steps: u64) -> LearningRate {
    schedule("inverse_square_root", over_steps(steps), move |t| {
        t.clip(steps as f64, f64::INFINITY).rsqrt()
    })
}

/// `rate / sqrt(max(t, steps))`, multiplied by a factor that falls from 1 to 0 along a line in the
/// last `fraction` of `total` steps.
///
/// This is Mesh TensorFlow's default, `learning_rate_schedule_noam`, whose own defaults are 10,000
/// steps, fraction 0.1 and rate 1. A fraction of 0 leaves the factor out. After `total` steps the
/// rate stays 0, where Mesh TensorFlow's becomes negative.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::noam(1.0, 100, 1000, 0.1).at_step(g.scalar(400.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.05).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn noam(rate: f64, steps: u64, total: u64, fraction: f64) -> LearningRate {
    let problem = of_rate("rate", rate).or_else(|| within("fraction", fraction, 0.0, 1.0));
    if let Some(problem) = problem.or_else(|| over_steps(steps)).or_else(|| over_steps(total)) {
        return LearningRate::refused("noam", problem);
    }
    let falls = match fraction {
        0.0 => constant(1.0),
        _ => to_zero(total as f64, total as f64 * fraction),
    };
    product([constant(rate), inverse_square_root(steps), falls])
}

/// Goes up from `rate / ratio` to `rate` in the first `cut_fraction` of `total` steps, then down
/// again, and stays at `rate / ratio`.
///
/// Howard & Ruder 2018, section 3.2, where the cut is 0.1, the ratio 32 and the rate 0.01.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::slanted_triangular(0.01, 1000, 0.1, 32.0).at_step(g.scalar(100.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.01).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn slanted_triangular(rate: f64, total: u64, cut_fraction: f64, ratio: f64) -> LearningRate {
    let cut = (total as f64 * cut_fraction).floor();
    let ratio_problem = || {
        let legal = ratio > 0.0 && ratio.is_finite();
        (!legal).then(|| format!("ratio {ratio}: legal are positive numbers"))
    };
    let problem = of_rate("rate", rate).or_else(ratio_problem);
    let problem =
        problem.or_else(|| within("cut_fraction", cut_fraction, 0.0, 1.0)).or_else(|| {
            let empty = cut < 1.0 || cut_fraction >= 1.0;
            empty.then(|| {
                format!(
                    "{cut_fraction} of {total} steps leaves no step to rise in, or none to fall in"
                )
            })
        });
    schedule("slanted_triangular", problem, move |t| {
        let rising = t / cut;
        let falling = 1.0 - (t - cut) * (1.0 / (cut * (1.0 / cut_fraction - 1.0)));
        let part = rising.minimum(falling).clip(0.0, 1.0);
        (part * (ratio - 1.0) + 1.0) * (rate / ratio)
    })
}

/// `first`, then from each of the given steps on the rate beside it.
///
/// TensorFlow's `piecewise_constant` names the last step of a piece instead: its boundary `b` is `b
/// + 1` here.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::piecewise_constant(1.0, &[(100, 0.5), (200, 0.25)]).at_step(g.scalar(100.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn piecewise_constant(first: f64, changes: &[(u64, f64)]) -> LearningRate {
    let changes = changes.to_vec();
    let unordered = changes.windows(2).find(|pair| pair[0].0 >= pair[1].0);
    let rates = std::iter::once(first).chain(changes.iter().map(|(_, rate)| *rate));
    let problem = rates.into_iter().find_map(|rate| of_rate("rate", rate)).or_else(|| {
        unordered
            .map(|pair| format!("step {} comes after step {}; they rise", pair[1].0, pair[0].0))
    });
    schedule("piecewise_constant", problem, move |t| {
        let graph = t.graph();
        let number = |value: f64| graph.scalar(value, t.dtype());
        changes.iter().fold(number(first), |before, &(from, rate)| {
            t.greater_equal(number(from as f64)).select(number(rate), before)
        })
    })
}

/// A factor that grows from 0 to 1 along a line: `min(1, t / steps)`. With 0 steps it is 1.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::linear_warmup(100).at_step(g.scalar(50.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn linear_warmup(steps: u64) -> LearningRate {
    if steps == 0 {
        return constant(1.0);
    }
    schedule("linear_warmup", None, move |t| (t / steps as f64).clip(0.0, 1.0))
}

/// A factor that falls from 1 to 0 along a line in the last `steps` steps before `total`: `min(1,
/// (total - t) / steps)`. After `total` it is 0.
///
/// Mesh TensorFlow's `linear_decay` becomes negative after `total`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::linear_to_zero(1000, 100).at_step(g.scalar(950.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn linear_to_zero(total: u64, steps: u64) -> LearningRate {
    match over_steps(steps) {
        Some(problem) => LearningRate::refused("linear_to_zero", problem),
        None => to_zero(total as f64, steps as f64),
    }
}

fn to_zero(total: f64, steps: f64) -> LearningRate {
    schedule("linear_to_zero", None, move |t| ((total - t) / steps).clip(0.0, 1.0))
}

/// `rate` multiplied by [`linear_warmup`] over `steps`.
///
/// `rate` itself counts from step 0: after the warm-up it is where it would be without one.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::with_warmup(0.2, 100).at_step(g.scalar(50.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.1).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_warmup(rate: impl Into<LearningRate>, steps: u64) -> LearningRate {
    product([rate.into(), linear_warmup(steps)])
}

/// The product of several rates, 1 if there are none.
///
/// Mesh TensorFlow's `product_learning_rate`. Its offset is an [`offset`] around the product, where
/// every total is smaller by the offset.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::product([0.5.into(), mesh_optimize::schedule::linear_warmup(100)]).at_step(g.scalar(50.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.25).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn product(factors: impl IntoIterator<Item = LearningRate>) -> LearningRate {
    let factors: Vec<_> = factors.into_iter().collect();
    LearningRate::of_step(move |t| {
        let mut factors = factors.iter().map(|factor| factor.at_step(t));
        let first = factors.next().unwrap_or_else(|| t.graph().scalar(1.0, t.dtype()));
        factors.fold(first, |product, factor| product * factor)
    })
}

/// `rate` with its steps counted from `steps` on: at step t its value at `t - steps`.
///
/// Before step `steps` the schedules of this module have their value at step 0.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let rate = mesh_optimize::schedule::offset(mesh_optimize::schedule::linear_warmup(100), 1000).at_step(g.scalar(1050.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn offset(rate: impl Into<LearningRate>, steps: i64) -> LearningRate {
    let rate = rate.into();
    LearningRate::of_step(move |t| rate.at_step(t - steps as f64))
}

/// A schedule from a function of the step. If `problem` is given, it is an error of the graph in
/// which the schedule is used.
fn schedule(
    name: &'static str,
    problem: Option<String>,
    rate: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + Send + Sync + 'static,
) -> LearningRate {
    match problem {
        Some(problem) => LearningRate::refused(name, problem),
        None => LearningRate::of_step(rate),
    }
}

/// `x^power`, exact for a power of 1.
fn raised(x: Tensor<'_>, power: f64) -> Tensor<'_> {
    if power == 1.0 { x } else { x.powf(power) }
}

fn from_to(rate: f64, end: f64) -> Option<String> {
    of_rate("rate", rate).or_else(|| of_rate("end", end))
}

fn over_steps(steps: u64) -> Option<String> {
    (steps == 0).then(|| "0 steps: legal are 1 or more".to_owned())
}

fn raised_to(power: f64) -> Option<String> {
    let legal = power > 0.0 && power.is_finite();
    (!legal).then(|| format!("power {power}: legal are positive numbers"))
}

fn within(what: &str, value: f64, low: f64, high: f64) -> Option<String> {
    let legal = (low..=high).contains(&value);
    (!legal).then(|| format!("{what} {value}: legal are {low} to {high}"))
}
