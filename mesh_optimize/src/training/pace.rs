//! The speed of a run.

use std::time::Duration;

/// The number of recent steps that count.
const RECENT: usize = 64;

/// The times of recent steps, from which throughput and remaining time are computed.
///
/// ```
/// use mesh_optimize::training::Pace;
///
/// let mut pace = Pace::new("examples", 200.0);
/// pace.note(0.5, Some(10));
/// assert_eq!((pace.unit(), pace.per_step()), ("examples", 200.0));
/// assert_eq!((pace.step_seconds(), pace.per_second()), (Some(0.5), Some(400.0)));
/// assert_eq!(pace.remaining(), Some(std::time::Duration::from_secs(5)));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Pace {
    unit: String,
    per_step: f64,
    /// The seconds of recent steps. The oldest is overwritten first.
    recent: [f64; RECENT],
    noted: usize,
    /// The number of steps left, if it is known.
    left: Option<u64>,
}

impl Pace {
    /// No steps yet. Each will take `per_step` of `unit`.
    pub fn new(unit: &str, per_step: f64) -> Self {
        Self { unit: unit.to_owned(), per_step, recent: [0.0; RECENT], noted: 0, left: None }
    }

    /// Notes the time of a step and the number of steps left.
    pub fn note(&mut self, seconds: f64, left: Option<u64>) {
        self.recent[self.noted % RECENT] = seconds;
        self.noted += 1;
        self.left = left;
    }

    /// The unit of throughput, such as `examples`.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// How much of the unit a step takes.
    pub fn per_step(&self) -> f64 {
        self.per_step
    }

    /// The median time of the recent steps; `None` before the first.
    pub fn step_seconds(&self) -> Option<f64> {
        let mut recent = self.recent;
        let known = recent.get_mut(..self.noted.min(RECENT))?;
        known.sort_unstable_by(f64::total_cmp);
        known.get(known.len() / 2).copied()
    }

    /// Throughput in units per second; `None` before the first step.
    pub fn per_second(&self) -> Option<f64> {
        self.step_seconds().filter(|seconds| *seconds > 0.0).map(|seconds| self.per_step / seconds)
    }

    /// How long the remaining steps will take, if their number is known.
    pub fn remaining(&self) -> Option<Duration> {
        let seconds = self.step_seconds()? * self.left? as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}
