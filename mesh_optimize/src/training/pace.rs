//! How fast a run is.

use std::time::Duration;

/// How many of the last steps are looked at.
const RECENT: usize = 64;

/// Step times and what follows from them: throughput, time left. Computed when asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Pace {
    unit: String,
    per_step: f64,
    /// Seconds of the last steps, the oldest overwritten first.
    recent: [f64; RECENT],
    noted: usize,
    /// Steps left, if that is known.
    left: Option<u64>,
}

impl Pace {
    /// Nothing noted yet; each step takes so many of a unit.
    pub fn new(unit: &str, per_step: f64) -> Self {
        Self { unit: unit.to_owned(), per_step, recent: [0.0; RECENT], noted: 0, left: None }
    }

    /// Notes a step's time, and how many steps are left.
    pub fn note(&mut self, seconds: f64, left: Option<u64>) {
        self.recent[self.noted % RECENT] = seconds;
        self.noted += 1;
        self.left = left;
    }

    /// What is counted: `examples`.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// How many of it one step takes.
    pub fn per_step(&self) -> f64 {
        self.per_step
    }

    /// The median time of the last steps; `None` before the first.
    pub fn step_seconds(&self) -> Option<f64> {
        let mut recent = self.recent;
        let known = recent.get_mut(..self.noted.min(RECENT))?;
        known.sort_unstable_by(f64::total_cmp);
        known.get(known.len() / 2).copied()
    }

    /// How many of the unit a second; `None` before the first step.
    pub fn per_second(&self) -> Option<f64> {
        self.step_seconds().filter(|seconds| *seconds > 0.0).map(|seconds| self.per_step / seconds)
    }

    /// How long the steps that are left will take, if that can be known.
    pub fn remaining(&self) -> Option<Duration> {
        let seconds = self.step_seconds()? * self.left? as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}
