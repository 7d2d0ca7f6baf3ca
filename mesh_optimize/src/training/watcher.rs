//! Watchers of training runs.

use super::{BoxError, Metrics, Outcome, Pace, Position, TrainingError};
use mesh_core::array::Array;
use mesh_core::session::Session;
use mesh_core::session::checkpoint::Refused;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The start of a run, or its resumption.
#[derive(Clone, Copy, Debug)]
pub struct Start<'r> {
    /// The session.
    pub session: &'r Session,
    /// The name of the function that the run calls.
    pub function: &'r str,
    /// The position at which the run starts.
    pub position: Position,
    /// The step after which the run ends, if it is known.
    pub steps: Option<u64>,
    /// The checkpoint from which the run resumes.
    pub from: Option<&'r Path>,
    /// Checkpoints that are not whole: newer ones, and the best one if it is to be kept.
    pub refused: &'r [Refused],
}

/// A finished step.
#[derive(Clone, Copy, Debug)]
pub struct Step<'r> {
    /// The session. It has [recorded](Session::recorded) times if a watcher asked for them.
    pub session: &'r Session,
    /// The position after the step; the step's number is `position.step`.
    pub position: Position,
    /// The scalar fetches and the scalar probes.
    pub metrics: &'r Metrics,
    /// The probes of larger tensors: label and value.
    pub tensors: &'r [(&'r str, &'r Array)],
    /// How long the step took, including the wait for its record.
    pub seconds: f64,
    /// The speed of the run.
    pub pace: &'r Pace,
}

/// A finished evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Evaluated<'r> {
    /// The session.
    pub session: &'r Session,
    /// The run's position.
    pub position: Position,
    /// The metrics of the evaluation.
    pub metrics: &'r Metrics,
    /// The best value so far of the metric that [`best`](super::Trainer::best) names.
    pub best: Option<f64>,
    /// How long the evaluation took.
    pub seconds: f64,
    /// The speed of the run.
    pub pace: &'r Pace,
}

/// Is told of a run's steps and evaluations. Methods that are not implemented do nothing.
///
/// If a watcher's output depends only on what the watcher is told, a run that is stopped and
/// resumed leaves the same output as one that was not. An error of any method ends the run.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # use mesh_optimize::{Optimizer, Sgd, dataset::{Dataset, Remainder}, training::*};
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
/// # let loss = x.dense(dim("out", 1), "out").square().mean();
/// # g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
/// # let layout = Layout::default();
/// # let module = g.lower(&Mesh::single(), &layout)?;
/// # let mut session = Session::threads(&module, 0)?;
/// # let x = ndarray::Array2::<f32>::ones((20, 2));
/// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// /// Counts steps.
/// struct Counter(Arc<AtomicU64>);
///
/// impl Watcher for Counter {
/// fn name(&self) -> &str {
/// "counter"
/// }
///
/// fn start(&mut self, _: &Start<'_>, saved: Option<&str>) -> Result<(), BoxError> {
/// let count = saved.map_or(Ok(0), str::parse)?;
/// Ok(self.0.store(count, Ordering::Relaxed))
/// }
///
/// fn step(&mut self, _: &Step<'_>) -> Result<(), BoxError> {
/// self.0.fetch_add(1, Ordering::Relaxed);
/// Ok(())
/// }
///
/// fn save(&mut self) -> Result<String, BoxError> {
/// Ok(self.0.load(Ordering::Relaxed).to_string())
/// }
/// }
///
/// let count = Arc::new(AtomicU64::new(0));
/// Trainer::new(&mut session, "train", data).watch(Counter(count.clone())).run()?;
/// assert_eq!(count.load(Ordering::Relaxed), 5);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub trait Watcher {
    /// The watcher's name in errors and saved states.
    fn name(&self) -> &str;

    /// A run starts. If it resumes from a state of this watcher, `saved` is what
    /// [`save`](Self::save) returned; output after that save must be discarded.
    ///
    /// # Errors
    ///
    /// If the watcher cannot start; the run ends.
    fn start(&mut self, _run: &Start<'_>, _saved: Option<&str>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Whether the times of this step, counted from 1, should be recorded.
    fn wants_times(&self, _step: u64) -> bool {
        false
    }

    /// A step is finished.
    ///
    /// # Errors
    ///
    /// If the watcher fails; the run ends.
    fn step(&mut self, _step: &Step<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    /// An evaluation is finished.
    ///
    /// # Errors
    ///
    /// If the watcher fails; the run ends.
    fn evaluation(&mut self, _evaluated: &Evaluated<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Flushes the output, and returns what the watcher needs to resume from here.
    ///
    /// # Errors
    ///
    /// If the output cannot be flushed; the run ends.
    fn save(&mut self) -> Result<String, BoxError> {
        Ok(String::new())
    }

    /// The file that must be on the disk before a save counts. Another thread may wait for that.
    ///
    /// # Errors
    ///
    /// If there is no handle for another thread; the run ends.
    fn file(&self) -> Result<Option<(PathBuf, File)>, BoxError> {
        Ok(None)
    }

    /// The run was saved under a name.
    ///
    /// # Errors
    ///
    /// If the watcher fails; the run ends.
    fn saved(&mut self, _position: Position, _name: &str) -> Result<(), BoxError> {
        Ok(())
    }

    /// Tells of a problem that a person should know of, although the run goes on. The checkpoints
    /// that a run refused at its [`start`](Self::start) are such problems, too.
    ///
    /// # Errors
    ///
    /// If the watcher fails; the run ends.
    fn warning(&mut self, _position: Position, _problem: &str) -> Result<(), BoxError> {
        Ok(())
    }

    /// The run is over. If it failed, this is the only method that is called.
    ///
    /// # Errors
    ///
    /// If the watcher fails; the run then ends with this error, unless it failed before.
    fn finish(&mut self, _outcome: &Outcome) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Tells all watchers; the first error ends that.
pub(super) fn tell(
    watchers: &mut [Box<dyn Watcher + '_>],
    step: u64,
    mut what: impl FnMut(&mut dyn Watcher) -> Result<(), BoxError>,
) -> Result<(), TrainingError> {
    watchers.iter_mut().try_for_each(|watcher| {
        let told = what(watcher.as_mut());
        told.map_err(|reason| {
            let name = watcher.name().to_owned();
            TrainingError::Watcher { name, step, reason }
        })
    })
}

/// The watchers' names. If several have one name, a number follows from the second on.
pub(super) fn names(watchers: &[Box<dyn Watcher + '_>]) -> Vec<String> {
    let name = |i: usize| {
        let name = watchers[i].name();
        match watchers[..i].iter().filter(|other| other.name() == name).count() {
            0 => name.to_owned(),
            same => format!("{name} {}", same + 1),
        }
    };
    (0..watchers.len()).map(name).collect()
}
