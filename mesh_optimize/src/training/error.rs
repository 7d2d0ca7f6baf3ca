//! What ends a run early and badly.

use super::BoxError;
use crate::dataset::DatasetError;
use mesh_core::session;
use std::path::PathBuf;
use thiserror::Error;

/// Why a run could not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The run as described makes no sense.
    #[error("{problem}")]
    Setting {
        /// What is wrong, and what would be legal.
        problem: String,
    },
    /// The session refused a call, or was stopped.
    #[error("step {step}: {reason}")]
    Session {
        /// The step, from 1.
        step: u64,
        /// Why.
        reason: session::Error,
    },
    /// There is no record.
    #[error("step {step} (epoch {epoch}, record {record}): {reason}")]
    Data {
        /// The step, from 1.
        step: u64,
        /// The pass of the data, from 0.
        epoch: u64,
        /// The record in that pass, from 0.
        record: u64,
        /// Why.
        reason: DatasetError,
    },
    /// A pass of the data without records.
    #[error("epoch {epoch} of the data has no records; a batch may be larger than the data")]
    NoRecords {
        /// The pass, from 0.
        epoch: u64,
    },
    /// An epoch does not go on where the run was saved.
    #[error(
        "the run was saved after {record} records of epoch {epoch}, which now has no more than \
         those: resume with the same data, batch size and seed"
    )]
    OtherData {
        /// The pass, from 0.
        epoch: u64,
        /// How many records had been taken.
        record: u64,
    },
    /// The loss is NaN or infinite.
    #[error(
        "{name} is {value} at step {step}; try a smaller learning rate, a longer warm-up, or \
         clipped gradients"
    )]
    NotFinite {
        /// The metric.
        name: String,
        /// What it is.
        value: f64,
        /// The step, from 1.
        step: u64,
    },
    /// An evaluation without the metric that is followed.
    #[error("the evaluation at step {step} has no metric `{name}`: it has {known}")]
    UnknownMetric {
        /// The metric.
        name: String,
        /// Those there are.
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
    /// A checkpoint is not of this run, or cannot be read.
    #[error("cannot go on from {}: {reason}", path.display())]
    Resume {
        /// The checkpoint, or the folder of them.
        path: PathBuf,
        /// Why not.
        reason: BoxError,
    },
    /// A watcher failed.
    #[error("{name} at step {step}: {reason}")]
    Watcher {
        /// The watcher.
        name: String,
        /// The step.
        step: u64,
        /// Why.
        reason: BoxError,
    },
}
