//! Learning rates, and other numbers, that change with the step.
//!
//! A schedule is a function of the graph's step `t`, which is 0 in the first call that trains
//! ([`ReduceOnPlateau`] also of a metric that is fed). It is computed in f64 on every processor and rounded once. Schedules can be multiplied
//! ([`product`]), delayed ([`offset`]) and started with a warm-up ([`with_warmup`]).
//!
//! | schedule | rate at step t |
//! |---|---|
//! | [`constant`] | `rate` |
//! | [`polynomial_decay`] | `end + (rate - end) (1 - min(t, T) / T)^power` |
//! | [`cyclic_polynomial_decay`] | the same, `T` times the least whole number that makes it at least `t` |
//! | [`linear_decay`] | polynomial, power 1 |
//! | [`cosine_decay`] | `rate ((1 - a) (1 + cos(pi min(t, T) / T)) / 2 + a)` |
//! | [`Exponential`] | `rate f^(t / T)`, smooth or in stairs |
//! | [`CosineRestarts`] | the cosine again and again, each time over `growth` times as many steps |
//! | [`OneCycle`] | up to `peak`, then down to far below the first rate |
//! | [`WarmupStableDecay`] | up, level, down in the last steps |
//! | [`ReduceOnPlateau`] | a rate times a factor that falls when a metric stops improving |
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

mod compose;
mod cycle;
mod decay;
mod plateau;
mod value;

pub use compose::{linear_to_zero, linear_warmup, offset, product, with_warmup};
pub use cycle::{CosineRestarts, Curve, OneCycle, WarmupStableDecay, slanted_triangular};
pub use decay::{
    Exponential, constant, cosine_decay, cyclic_polynomial_decay, inverse_square_root,
    linear_decay, noam, piecewise_constant, polynomial_decay,
};
pub use plateau::ReduceOnPlateau;
pub use value::Schedule;

use mesh_core::graph::Tensor;
use mesh_ops::Ops;
use value::problem as of_rate;

/// A schedule from a function of the step. If `problem` is given, it is an error of the graph in
/// which the schedule is used.
fn schedule(
    name: &'static str,
    problem: Option<String>,
    rate: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + Send + Sync + 'static,
) -> Schedule {
    match problem {
        Some(problem) => Schedule::refused(name, problem),
        None => Schedule::of_step(rate),
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
