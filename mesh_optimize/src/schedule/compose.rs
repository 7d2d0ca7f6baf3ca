//! Factors, and schedules made of others.

use super::{constant, over_steps, schedule};
use crate::Schedule;
use mesh_ops::Ops;

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
pub fn linear_warmup(steps: u64) -> Schedule {
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
pub fn linear_to_zero(total: u64, steps: u64) -> Schedule {
    match over_steps(steps) {
        Some(problem) => Schedule::refused("linear_to_zero", problem),
        None => to_zero(total as f64, steps as f64),
    }
}

pub(super) fn to_zero(total: f64, steps: f64) -> Schedule {
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
pub fn with_warmup(rate: impl Into<Schedule>, steps: u64) -> Schedule {
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
pub fn product(factors: impl IntoIterator<Item = Schedule>) -> Schedule {
    let factors: Vec<_> = factors.into_iter().collect();
    Schedule::of_step(move |t| {
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
pub fn offset(rate: impl Into<Schedule>, steps: i64) -> Schedule {
    let rate = rate.into();
    Schedule::of_step(move |t| rate.at_step(t - steps as f64))
}
