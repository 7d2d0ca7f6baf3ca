//! The position of a run, the state it needs to resume, and its outcome.

use super::{Metrics, Pace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A position in a run, between two steps.
///
/// ```
/// use mesh_optimize::training::Position;
///
/// let position = Position { step: 7, epoch: 1, record: 2 };
/// assert_eq!(position.epoch_of_step(), 2); // step 7 was in the second epoch
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Position {
    /// The number of finished steps.
    pub step: u64,
    /// The number of finished epochs.
    pub epoch: u64,
    /// The number of records used of the epoch that is not finished.
    pub record: u64,
}

impl Position {
    /// The epoch of the last finished step, counted from 1.
    pub fn epoch_of_step(&self) -> u64 {
        self.epoch.saturating_add(u64::from(self.record > 0))
    }
}

/// How often something is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Every {
    /// After every so many steps.
    Steps(u64),
    /// After every so many epochs.
    Epochs(u64),
}

impl Every {
    /// Whether it is due at this position, after a step.
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
    /// The lower value is better, as for a loss.
    Lower,
    /// The higher value is better, as for an accuracy.
    Higher,
}

impl Better {
    /// Whether a value is better than the best so far. A value that is not finite never is.
    ///
    /// ```
    /// use mesh_optimize::training::Better;
    ///
    /// assert!(Better::Lower.improves(0.5, Some(0.6)) && Better::Higher.improves(0.5, None));
    /// assert!(!Better::Lower.improves(f64::NAN, None));
    /// ```
    pub fn improves(self, value: f64, best: Option<f64>) -> bool {
        value.is_finite()
            && best.is_none_or(|best| match self {
                Self::Lower => value < best,
                Self::Higher => value > best,
            })
    }
}

/// All that a run needs to resume, apart from the variables.
///
/// ```
/// # use mesh_optimize::training::TrainingState;
/// let state: TrainingState = serde_json::from_str(r#"{"position":{"step":7,"epoch":1,"record":2}}"#)?;
/// assert_eq!(state.position.step, 7);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TrainingState {
    /// The run's position.
    pub position: Position,
    /// The best value so far of the metric that [`best`](super::Trainer::best) names.
    #[serde(default)]
    pub best: Option<f64>,
    /// The step of the evaluation that had the best value.
    #[serde(default)]
    pub best_step: Option<u64>,
    /// The number of evaluations since the best value.
    #[serde(default)]
    pub waited: u64,
    /// The number of steps in a row, up to now, whose loss was not finite.
    #[serde(default)]
    pub not_finite: u64,
    /// What each watcher saved, by the watcher's name.
    #[serde(default)]
    pub watchers: BTreeMap<String, String>,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    /// All steps or epochs are finished.
    Finished,
    /// The evaluations did not improve any more.
    Early,
    /// The run was asked to stop.
    Interrupted,
    /// The run failed.
    Failed,
}

/// The results of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// The position at which it ended.
    pub position: Position,
    /// The best value of the metric that [`best`](super::Trainer::best) names.
    pub best: Option<f64>,
    /// The metrics of the last step; empty if there was no step.
    pub metrics: Metrics,
    /// The metrics of the last evaluation, if there was one.
    pub evaluation: Option<Metrics>,
    /// The speed at the end.
    pub pace: Pace,
    /// The state from which the run can resume.
    pub state: TrainingState,
}
