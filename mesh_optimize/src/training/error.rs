//! The errors that end a run.

use super::BoxError;
use crate::dataset::DatasetError;
use mesh_core::session;
use std::path::PathBuf;
use thiserror::Error;

/// Why a run ended with an error.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// A setting of the run makes no sense.
    #[error("{problem}")]
    Setting {
        /// What is wrong, and what would be legal.
        problem: String,
    },
    /// A call of the session failed.
    #[error("step {step}: {reason}")]
    Session {
        /// The step, from 1.
        step: u64,
        /// Why.
        reason: session::Error,
    },
    /// The data set could not make a record.
    #[error("step {step} (epoch {epoch}, record {record}): {reason}")]
    Data {
        /// The step, from 1.
        step: u64,
        /// The pass of the data, from 0.
        epoch: u64,
        /// The record in that pass, from 0.
        record: u64,
        /// The data set's error.
        reason: DatasetError,
    },
    /// A pass of the data has no records.
    #[error("epoch {epoch} of the data has no records; a batch may be larger than the data")]
    NoRecords {
        /// The pass, from 0.
        epoch: u64,
    },
    /// The epoch in which the run was saved has fewer records now.
    #[error(
        "the run was saved after {record} records of epoch {epoch}, which now has no more than \
         those: resume with the same data, batch size and seed"
    )]
    OtherData {
        /// The pass, from 0.
        epoch: u64,
        /// How many of its records had been used when the run was saved.
        record: u64,
    },
    /// The loss is NaN or infinite.
    #[error(
        "{name} is {value} at step {step}; try a smaller learning rate, a longer warm-up, or \
         clipped gradients"
    )]
    NotFinite {
        /// The name of the loss.
        name: String,
        /// The loss.
        value: f64,
        /// The step, from 1.
        step: u64,
    },
    /// No evaluation gives the metric that [`best`](super::Trainer::best) or
    /// [`stop_early`](super::Trainer::stop_early) names.
    #[error("the evaluation at step {step} has no metric `{name}`: it has {known}")]
    UnknownMetric {
        /// The metric's name.
        name: String,
        /// The metrics of the evaluation.
        known: String,
        /// The step.
        step: u64,
    },
    /// An evaluation failed.
    #[error("evaluation at step {step}: {reason}")]
    Evaluation {
        /// The step.
        step: u64,
        /// Why.
        reason: BoxError,
    },
    /// The state could not be saved.
    #[error("saving at step {step}: {reason}")]
    Save {
        /// The step.
        step: u64,
        /// Why.
        reason: BoxError,
    },
    /// A checkpoint belongs to another run or cannot be read.
    #[error("cannot go on from {}: {reason}", path.display())]
    Resume {
        /// The checkpoint, or the folder of checkpoints.
        path: PathBuf,
        /// Why it was refused.
        reason: BoxError,
    },
    /// The best checkpoint could not be restored at the end.
    #[error("the best checkpoint, of step {step}, cannot be restored: {reason}")]
    Best {
        /// The step of the best evaluation.
        step: u64,
        /// Why.
        reason: BoxError,
    },
    /// A watcher failed.
    #[error("{name} at step {step}: {reason}")]
    Watcher {
        /// The watcher's name.
        name: String,
        /// The step.
        step: u64,
        /// Why.
        reason: BoxError,
    },
}
