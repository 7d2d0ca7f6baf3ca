//! Learning rates that change with the step.
//!
//! Every schedule is a function of the graph's step `t`, which is 0 in the first call that trains. It
//! is computed in f64 on every processor and rounded once. Schedules multiply ([`product`]), start
//! later ([`offset`]) and grow from 0 ([`with_warmup`]).
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
//! use mesh_optimize::{AdamWeightDecay, schedule};
//!
//! // Up to 3e-4 in 100 steps, down to a tenth of it along a cosine by step 10,000.
//! let rate = schedule::with_warmup(schedule::cosine_decay(3e-4, 10_000, 0.1), 100);
//! let adam = AdamWeightDecay::new(rate);
//! ```
//!
//! What no run can have, as a decay over 0 steps, is an error of the graph it is used in.

use crate::LearningRate;
use mesh_core::graph::Tensor;
use mesh_ops::Ops;
use std::f64::consts::PI;

/// `rate`, always.
pub fn constant(rate: f64) -> LearningRate {
    rate.into()
}

/// From `rate` to `end` in `steps`: `end + (rate - end) (1 - t / steps)^power`, then `end`.
///
/// TensorFlow's `polynomial_decay` without `cycle`.
pub fn polynomial_decay(rate: f64, end: f64, steps: u64, power: f64) -> LearningRate {
    let problem = over_steps(steps).or_else(|| raised_to(power));
    schedule("polynomial_decay", problem, move |t| {
        let left = 1.0 - t.clip(0.0, steps as f64) / steps as f64;
        raised(left, power) * (rate - end) + end
    })
}

/// A [`polynomial_decay`] that starts anew, from a lower rate, each time it has come to `end`.
///
/// `end + (rate - end) (1 - t / T)^power`, where `T` is the least multiple of `steps` that is at
/// least `t` and not 0. TensorFlow's `polynomial_decay` with `cycle`.
pub fn cyclic_polynomial_decay(rate: f64, end: f64, steps: u64, power: f64) -> LearningRate {
    let problem = over_steps(steps).or_else(|| raised_to(power));
    schedule("cyclic_polynomial_decay", problem, move |t| {
        let t = t.clip(0.0, f64::INFINITY);
        let cycles = t / steps as f64;
        let ceiling = -(-cycles).floor();
        let whole = ceiling.clip(1.0, f64::INFINITY);
        raised(1.0 - cycles / whole, power) * (rate - end) + end
    })
}

/// From `rate` to `end` along a line in `steps`, then `end`: [`polynomial_decay`] of power 1.
pub fn linear_decay(rate: f64, end: f64, steps: u64) -> LearningRate {
    polynomial_decay(rate, end, steps, 1.0)
}

/// From `rate` to `alpha rate` along half a cosine in `steps`, then `alpha rate`.
///
/// Loshchilov & Hutter 2017 without restarts; TensorFlow's `cosine_decay`.
pub fn cosine_decay(rate: f64, steps: u64, alpha: f64) -> LearningRate {
    schedule("cosine_decay", over_steps(steps), move |t| {
        let gone = t.clip(0.0, steps as f64) / steps as f64;
        (((gone * PI).cos() + 1.0) * (0.5 * (1.0 - alpha)) + alpha) * rate
    })
}

/// `1 / sqrt(max(t, steps))`: constant for the first `steps`. Mesh TensorFlow's `truncated_rsqrt`.
///
/// Times [`linear_warmup`] over the same steps and `width^-0.5` it is the rate of Vaswani et al. 2017,
/// section 5.3, there counted from step 1.
pub fn inverse_square_root(steps: u64) -> LearningRate {
    schedule("inverse_square_root", over_steps(steps), move |t| {
        t.clip(steps as f64, f64::INFINITY).rsqrt()
    })
}

/// `rate / sqrt(max(t, steps))` which falls to 0 along a line in the last `fraction` of `total`.
///
/// Mesh TensorFlow's default, `learning_rate_schedule_noam`, with steps 10,000, fraction 0.1 and rate 1
/// by default. A fraction of 0 leaves the fall out. Past the end the rate stays 0, where it becomes
/// negative there.
pub fn noam(rate: f64, steps: u64, total: u64, fraction: f64) -> LearningRate {
    let falls = match within("fraction", fraction, 0.0, 1.0).or_else(|| over_steps(total)) {
        Some(problem) => refused("noam", problem),
        None if fraction == 0.0 => constant(1.0),
        None => to_zero(total as f64, total as f64 * fraction),
    };
    product([constant(rate), inverse_square_root(steps), falls])
}

/// From `rate / ratio` up to `rate` in the first `cut_fraction` of `total` steps, then down again.
///
/// Howard & Ruder 2018, section 3.2, where the cut is 0.1, the ratio 32 and the rate 0.01. Past `total`
/// it stays at `rate / ratio`.
pub fn slanted_triangular(rate: f64, total: u64, cut_fraction: f64, ratio: f64) -> LearningRate {
    let cut = (total as f64 * cut_fraction).floor();
    let problem = within("cut_fraction", cut_fraction, 0.0, 1.0).or_else(|| {
        let empty = cut < 1.0 || cut_fraction >= 1.0;
        empty.then(|| {
            format!("{cut_fraction} of {total} steps leaves no step to rise in, or none to fall in")
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
/// TensorFlow's `piecewise_constant` names the last step of a piece instead: its boundary `b` is
/// `b + 1` here.
pub fn piecewise_constant(first: f64, changes: &[(u64, f64)]) -> LearningRate {
    let changes = changes.to_vec();
    let unordered = changes.windows(2).find(|pair| pair[0].0 >= pair[1].0);
    let problem = unordered
        .map(|pair| format!("step {} comes after step {}; they rise", pair[1].0, pair[0].0));
    schedule("piecewise_constant", problem, move |t| {
        let graph = t.graph();
        let number = |value: f64| graph.scalar(value, t.dtype());
        changes.iter().fold(number(first), |before, &(from, rate)| {
            t.greater_equal(number(from as f64)).select(number(rate), before)
        })
    })
}

/// A factor that grows along a line: `min(1, t / steps)`; with 0 steps, 1.
pub fn linear_warmup(steps: u64) -> LearningRate {
    if steps == 0 {
        return constant(1.0);
    }
    schedule("linear_warmup", None, move |t| (t / steps as f64).clip(0.0, 1.0))
}

/// A factor that falls to 0 along a line in the last `steps` before `total`: `min(1, (total - t) /
/// steps)`, and 0 past `total`.
///
/// Mesh TensorFlow's `linear_decay`, which becomes negative past `total`.
pub fn linear_to_zero(total: u64, steps: u64) -> LearningRate {
    match over_steps(steps) {
        Some(problem) => refused("linear_to_zero", problem),
        None => to_zero(total as f64, steps as f64),
    }
}

fn to_zero(total: f64, steps: f64) -> LearningRate {
    schedule("linear_to_zero", None, move |t| ((total - t) / steps).clip(0.0, 1.0))
}

/// `rate` times `t / steps` for the first `steps`, so 0 at first; then `rate`.
///
/// The rate runs on while it is held back: at `steps` it is where it would be without.
pub fn with_warmup(rate: impl Into<LearningRate>, steps: u64) -> LearningRate {
    product([rate.into(), linear_warmup(steps)])
}

/// The product of rates. Without any, 1.
///
/// Mesh TensorFlow's `product_learning_rate`; its offset is [`offset`] around the product, with every
/// total made smaller by as much.
pub fn product(factors: impl IntoIterator<Item = LearningRate>) -> LearningRate {
    let factors: Vec<_> = factors.into_iter().collect();
    LearningRate::of_step(move |t| {
        let mut factors = factors.iter().map(|factor| factor.at_step(t));
        let first = factors.next().unwrap_or_else(|| t.graph().scalar(1.0, t.dtype()));
        factors.fold(first, |product, factor| product * factor)
    })
}

/// `rate` with its steps counted from `steps` on: at step t what it is at `t - steps`.
///
/// Before that the schedules of this module are what they are at step 0.
pub fn offset(rate: impl Into<LearningRate>, steps: i64) -> LearningRate {
    let rate = rate.into();
    LearningRate::of_step(move |t| rate.at_step(t - steps as f64))
}

/// A function of the step, or an error of the graph in which it is used.
fn schedule(
    name: &'static str,
    problem: Option<String>,
    rate: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + Send + Sync + 'static,
) -> LearningRate {
    match problem {
        Some(problem) => refused(name, problem),
        None => LearningRate::of_step(rate),
    }
}

fn refused(name: &'static str, problem: String) -> LearningRate {
    LearningRate::of_step(move |t| {
        t.graph().record(name, problem.clone());
        t.poisoned()
    })
}

/// `x^power`; a power of 1 is exact.
fn raised(x: Tensor<'_>, power: f64) -> Tensor<'_> {
    if power == 1.0 { x } else { x.powf(power) }
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
