//! Where a run is, what it needs to go on, and how it ended.

use super::{Metrics, Pace, TrainingError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a run is: always between two steps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Position {
    /// How many steps are done.
    pub step: u64,
    /// How many epochs are done.
    pub epoch: u64,
    /// How many records of the next epoch are taken.
    pub record: u64,
}

impl Position {
    /// The epoch of the last step, from 1.
    pub fn epoch_of_step(&self) -> u64 {
        self.epoch.saturating_add(u64::from(self.record > 0))
    }
}

/// How often something is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Every {
    /// After each so many steps.
    Steps(u64),
    /// After each so many epochs.
    Epochs(u64),
}

impl Every {
    /// Whether it is due where the run is, after a step.
    pub(super) fn due(self, position: Position) -> bool {
        match self {
            Self::Steps(steps) => position.step.is_multiple_of(steps),
            Self::Epochs(epochs) => position.record == 0 && position.epoch.is_multiple_of(epochs),
        }
    }
}

/// Which of two values of a metric is better.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Better {
    /// The lower one: a loss.
    Lower,
    /// The higher one: an accuracy.
    Higher,
}

impl Better {
    /// Whether a value is better than the best so far. One that is not finite never is.
    pub fn improves(self, value: f64, best: Option<f64>) -> bool {
        value.is_finite()
            && best.is_none_or(|best| match self {
                Self::Lower => value < best,
                Self::Higher => value > best,
            })
    }
}

/// Which metric of evaluations is followed.
pub(super) struct Best {
    pub(super) metric: String,
    pub(super) better: Better,
    /// After how many evaluations without a better value the run ends.
    pub(super) patience: Option<u64>,
}

impl Best {
    /// Takes an evaluation into account.
    pub(super) fn note(
        &self,
        metrics: &Metrics,
        state: &mut TrainingState,
    ) -> Result<(), TrainingError> {
        let value = metrics.get(&self.metric).ok_or_else(|| {
            let known: Vec<_> = metrics.iter().map(|(name, _)| name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let (name, step) = (self.metric.clone(), state.position.step);
            TrainingError::UnknownMetric { name, known, step }
        })?;
        if self.better.improves(value, state.best) {
            (state.best, state.waited) = (Some(value), 0);
        } else {
            state.waited = state.waited.saturating_add(1);
        }
        Ok(())
    }
}

/// All that a run needs to go on, but for the variables.
///
/// ```
/// # use mesh_optimize::training::TrainingState;
/// let state: TrainingState = serde_json::from_str(r#"{"position":{"step":7,"epoch":1,"record":2}}"#)?;
/// assert_eq!(state.position.step, 7);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TrainingState {
    /// Where the run is.
    pub position: Position,
    /// The best value so far of the metric that is followed.
    #[serde(default)]
    pub best: Option<f64>,
    /// How many evaluations in a row were not better.
    #[serde(default)]
    pub waited: u64,
    /// What each watcher needs, by its name.
    #[serde(default)]
    pub watchers: BTreeMap<String, String>,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    /// All steps or epochs are done.
    Finished,
    /// Evaluations got no better.
    Early,
    /// It was asked to stop.
    Interrupted,
    /// With an error.
    Failed,
}

/// What came out of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Where.
    pub position: Position,
    /// The best value of the metric that is followed.
    pub best: Option<f64>,
    /// The last metrics of steps, if there was a step.
    pub metrics: Metrics,
    /// The metrics of the last evaluation, if there was one.
    pub evaluation: Option<Metrics>,
    /// How fast it was at the end.
    pub pace: Pace,
    /// With which it can go on.
    pub state: TrainingState,
}
