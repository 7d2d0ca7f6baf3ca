//! Who is told what happens in a run.

use super::{BoxError, Metrics, Outcome, Pace, Position};
use mesh_core::array::Array;
use mesh_core::session::Session;
use mesh_core::session::checkpoint::Refused;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A run is about to begin, or to go on.
#[derive(Clone, Copy, Debug)]
pub struct Start<'r> {
    /// The session.
    pub session: &'r Session,
    /// The function that is called.
    pub function: &'r str,
    /// Where the run begins.
    pub position: Position,
    /// After which step it ends, if that is known.
    pub steps: Option<u64>,
    /// The checkpoint that it goes on from.
    pub from: Option<&'r Path>,
    /// Checkpoints that are newer than that, and are not whole.
    pub refused: &'r [Refused],
}

/// A step is done.
#[derive(Clone, Copy, Debug)]
pub struct Step<'r> {
    /// The session. If a watcher asked for times, it has [recorded](Session::recorded) them.
    pub session: &'r Session,
    /// Where the run is now: at the end of step `position.step`.
    pub position: Position,
    /// Scalar fetches and scalar probes.
    pub metrics: &'r Metrics,
    /// Probes of larger tensors.
    pub tensors: &'r [(&'r str, &'r Array)],
    /// How long the step took, waiting for its record included.
    pub seconds: f64,
    /// How fast the run is.
    pub pace: &'r Pace,
}

/// An evaluation is done.
#[derive(Clone, Copy, Debug)]
pub struct Evaluated<'r> {
    /// The session.
    pub session: &'r Session,
    /// Where the run is.
    pub position: Position,
    /// What was found.
    pub metrics: &'r Metrics,
    /// The best value so far of the metric that is followed.
    pub best: Option<f64>,
    /// How long it took.
    pub seconds: f64,
    /// How fast the run is.
    pub pace: &'r Pace,
}

/// Is told of a run's steps and evaluations. Does nothing about what it does not implement.
///
/// What it writes should follow from what it is told alone if a run that is stopped and resumed is
/// to leave the same behind as one that never stopped.
pub trait Watcher {
    /// What errors and saved states call it.
    fn name(&self) -> &str;

    /// A run begins; with what [`save`](Self::save) said, if it goes on from a state of this
    /// watcher. What is written after that save is to be forgotten.
    fn start(&mut self, _run: &Start<'_>, _saved: Option<&str>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Whether the times of this step, from 1, should be recorded.
    fn wants_times(&self, _step: u64) -> bool {
        false
    }

    /// A step is done.
    fn step(&mut self, _step: &Step<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    /// An evaluation is done.
    fn evaluation(&mut self, _evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Hands everything it holds back to the system, and says what it needs to go on from here.
    fn save(&mut self) -> Result<String, BoxError> {
        Ok(String::new())
    }

    /// A handle of the file that has to be on the disk before a save counts. Another thread may
    /// wait for that.
    fn file(&self) -> Result<Option<(PathBuf, File)>, BoxError> {
        Ok(None)
    }

    /// The run was saved under a name.
    fn saved(&mut self, _position: Position, _name: &str) -> Result<(), BoxError> {
        Ok(())
    }

    /// Something is not as it should be, and the run goes on all the same; a person should know. So
    /// should they of the checkpoints that a run at its [`start`](Self::start) has refused.
    fn warning(&mut self, _position: Position, _problem: &str) -> Result<(), BoxError> {
        Ok(())
    }

    /// The run is over. Of one that failed, this is all that a watcher is told.
    fn finish(&mut self, _outcome: &Outcome) -> Result<(), BoxError> {
        Ok(())
    }
}
