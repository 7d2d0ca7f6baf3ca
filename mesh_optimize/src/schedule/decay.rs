//! Rates that fall, or stay.

use super::compose::{product, to_zero};
use super::value::problem as of_rate;
use super::{from_to, over_steps, raised, raised_to, schedule, within};
use crate::Schedule;
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
pub fn constant(rate: f64) -> Schedule {
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
pub fn polynomial_decay(rate: f64, end: f64, steps: u64, power: f64) -> Schedule {
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
pub fn cyclic_polynomial_decay(rate: f64, end: f64, steps: u64, power: f64) -> Schedule {
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
pub fn linear_decay(rate: f64, end: f64, steps: u64) -> Schedule {
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
pub fn cosine_decay(rate: f64, steps: u64, alpha: f64) -> Schedule {
    let problem = of_rate("rate", rate).or_else(|| of_rate("alpha", alpha));
    schedule("cosine_decay", problem.or_else(|| over_steps(steps)), move |t| {
        let gone = t.clip(0.0, steps as f64) / steps as f64;
        (((gone * PI).cos() + 1.0) * (0.5 * (1.0 - alpha)) + alpha) * rate
    })
}

/// `1 / sqrt(max(t, steps))`, which is constant for the first `steps` steps. Mesh TensorFlow's
/// `truncated_rsqrt`.
///
/// Multiplied by [`linear_warmup`](super::linear_warmup) over the same steps and by `width^-0.5`, it is the rate of
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
pub fn inverse_square_root(steps: u64) -> Schedule {
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
pub fn noam(rate: f64, steps: u64, total: u64, fraction: f64) -> Schedule {
    let problem = of_rate("rate", rate).or_else(|| within("fraction", fraction, 0.0, 1.0));
    if let Some(problem) = problem.or_else(|| over_steps(steps)).or_else(|| over_steps(total)) {
        return Schedule::refused("noam", problem);
    }
    let falls = match fraction {
        0.0 => constant(1.0),
        _ => to_zero(total as f64, total as f64 * fraction),
    };
    product([constant(rate), inverse_square_root(steps), falls])
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
pub fn piecewise_constant(first: f64, changes: &[(u64, f64)]) -> Schedule {
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

/// `rate factor^(t / steps)`: multiplied by `factor` every so many steps. It becomes a [`Schedule`]
/// where one is asked for.
///
/// This is optax's and TensorFlow's `exponential_decay`; PyTorch's `ExponentialLR` has 1 step, its `StepLR`
/// is the staircase. optax's `transition_begin` is an [`offset`](super::offset) around it.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// use mesh_optimize::{Schedule, schedule::Exponential};
///
/// let halved = Exponential { staircase: true, ..Exponential::new(1.0, 100, 0.5) };
/// let rate = Schedule::from(halved).at_step(g.scalar(250.0, F64));
/// # let f = g.function("rate", [], [rate], []);
/// # let [rate] = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?.call(&f, [])?;
/// assert!((rate.to_f64().sum() - 0.25).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exponential {
    /// The rate at step 0.
    pub rate: f64,
    /// After how many steps it has been multiplied by the factor.
    pub steps: u64,
    /// The factor.
    pub factor: f64,
    /// Whether it is multiplied all at once, after each `steps` steps.
    pub staircase: bool,
    /// Where it stops.
    pub end: Option<f64>,
}

impl Exponential {
    /// A smooth decay without end.
    pub fn new(rate: f64, steps: u64, factor: f64) -> Self {
        Self { rate, steps, factor, staircase: false, end: None }
    }
}

impl From<Exponential> for Schedule {
    fn from(exponential: Exponential) -> Self {
        let Exponential { rate, steps, factor, staircase, end } = exponential;
        let factor_problem = || {
            let legal = factor > 0.0 && factor.is_finite();
            (!legal).then(|| format!("factor {factor}: legal are positive numbers"))
        };
        let problem = from_to(rate, end.unwrap_or(0.0)).or_else(|| over_steps(steps));
        schedule("exponential_decay", problem.or_else(factor_problem), move |t| {
            let gone = t.clip(0.0, f64::INFINITY) / steps as f64;
            let gone = if staircase { gone.floor() } else { gone };
            let rate = t.graph().scalar(factor, t.dtype()).pow(gone) * rate;
            match end {
                Some(end) if factor < 1.0 => rate.maximum(end),
                Some(end) => rate.minimum(end),
                None => rate,
            }
        })
    }
}
