//! The training loop and its watchers.
//!
//! A [`Trainer`] calls one function of a session once for each record of a [`Dataset`]; one pass of
//! the data set is an epoch. Every scalar that the function fetches is a metric, and so is every
//! scalar [`probe`](mesh_core::graph::Tensor::probe). Probes of larger tensors become histograms.
//! [`Watcher`]s are told of each step and each evaluation: [`MetricsFile`] writes JSON lines,
//! [`EventFile`] files for TensorBoard, [`ReportFile`] an HTML page. [`Progress`], which every trainer has,
//! shows a bar on a terminal and writes lines elsewhere.
//!
//! An [`Evaluation`] computes metrics of a whole data set.
//!
//! A [`TrainingState`] and the variables are all that a run needs to resume.
//! [`Trainer::checkpoints`] saves both, and resumes a run that was stopped or killed.
//!
//! ```
//! use mesh_ops::prelude::*;
//! use mesh_optimize::dataset::{Dataset, Remainder};
//! use mesh_optimize::training::{Ended, Every, Metrics, Trainer};
//! use mesh_optimize::{Optimizer, Sgd};
//!
//! let g = mesh_ops::graph();
//! let (batch, width) = (dim("batch", 4), dim("width", 2));
//! let x = g.input("x", [batch, width], F32);
//! let loss = x.dense(dim("out", 1), "out").square().mean().probe("loss");
//! let train = g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
//! let module = g.lower(&"data:2".parse()?, &"batch:data".parse()?)?;
//! let mut session = Session::threads(&module, 0)?;
//!
//! let x = ndarray::Array2::<f32>::ones((20, 2));
//! let data = Dataset::from_arrays([("x", x.into())])?.shuffle(20, 7)?.batch(4, Remainder::Drop)?;
//! let outcome = Trainer::new(&mut session, train.name(), data)
//!     .epochs(3)
//!     .evaluate(Every::Epochs(1), |session, _| {
//!         let weight = session.read("out/kernel")?.to_f64();
//!         Ok(Metrics::from([("size", weight.iter().map(|w| w * w).sum::<f64>())]))
//!     })
//!     .run()?;
//! assert_eq!((outcome.position.step, outcome.ended), (15, Ended::Finished));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod best;
mod checkpoints;
mod error;
mod evaluation;
mod events;
mod metrics;
mod pace;
mod progress;
mod report;
mod run;
mod state;
mod trace;
mod watcher;

pub use error::TrainingError;
pub use evaluation::Evaluation;
pub use events::EventFile;
pub use metrics::{Metrics, MetricsFile};
pub use pace::Pace;
pub use progress::Progress;
pub use report::{
    AxisPicture, Bin, Chart, Curve, DimPicture, Image, LayoutPicture, OperationTime, Planned,
    Report, ReportFile, Traffic, VariablePicture,
};
pub use state::{Better, Ended, Every, Outcome, Position, TrainingState};
pub use trace::TraceFile;
pub use watcher::{Evaluated, Start, Step, Watcher};

use crate::dataset::Dataset;
use best::{Best, BestCheckpoint};
use checkpoints::Saver;
use mesh_core::session::Session;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The error of a user's function in a run.
pub type BoxError = Box<dyn Error + Send + Sync>;

type Evaluate<'t> = dyn FnMut(&mut Session, Position) -> Result<Metrics, BoxError> + 't;

/// The description of a training run; [`run`](Self::run) carries it out.
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
/// use std::sync::{Arc, atomic::AtomicBool};
///
/// let interrupted = Arc::new(AtomicBool::new(false)); // a handler of Ctrl-C would set it
/// let outcome = Trainer::new(&mut session, "train", data)
/// .epochs(10)
/// .steps(12)
/// .metric_names(["loss"])
/// .counting("examples", 4.0)
/// .evaluate(Every::Epochs(1), |session, _| {
/// let weight = session.read("out/kernel")?.to_f64();
/// Ok(Metrics::from([("size", weight.iter().map(|w| w * w).sum::<f64>())]))
/// })
/// .best("size", Better::Lower)
/// .stop_when(interrupted)
/// .run()?;
/// assert_eq!((outcome.position.step, outcome.ended), (12, Ended::Finished));
/// assert!(outcome.metrics.get("loss").is_some());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Trainer<'t> {
    session: &'t mut Session,
    function: String,
    data: Dataset,
    steps: Option<u64>,
    epochs: Option<u64>,
    names: Vec<String>,
    pace: Pace,
    evaluation: Option<(Every, Box<Evaluate<'t>>)>,
    best: Option<Best>,
    best_checkpoint: BestCheckpoint,
    save: Option<(Every, Saver<'t>)>,
    settings: BTreeMap<String, String>,
    stop: Option<Arc<AtomicBool>>,
    not_finite_most: u64,
    progress: Option<Progress<'t>>,
    watchers: Vec<Box<dyn Watcher + 't>>,
    state: TrainingState,
}

impl fmt::Debug for Trainer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trainer")
            .field("function", &self.function)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl<'t> Trainer<'t> {
    /// Calls `function` for each record of `data`; the record's arrays are the function's feeds, by
    /// name. Pass `n` of the data ([`Dataset::pass`]) is epoch `n`, counted from 0. Without
    /// [`steps`](Self::steps) and [`epochs`](Self::epochs) the run takes one epoch.
    ///
    /// The function's first scalar fetch is the loss. If it is not finite, the run ends with an
    /// error, unless [`not_finite_losses`](Self::not_finite_losses) allows it.
    ///
    /// A [`Progress`] shows how the run goes, until [`progress`](Self::progress) or
    /// [`quiet`](Self::quiet) says something else.
    pub fn new(session: &'t mut Session, function: &str, data: Dataset) -> Self {
        Self {
            session,
            function: function.to_owned(),
            data,
            steps: None,
            epochs: None,
            names: Vec::new(),
            pace: Pace::new("steps", 1.0),
            evaluation: None,
            best: None,
            best_checkpoint: BestCheckpoint::Unkept,
            save: None,
            settings: BTreeMap::new(),
            stop: None,
            not_finite_most: 0,
            progress: Some(Progress::default()),
            watchers: Vec::new(),
            state: TrainingState::default(),
        }
    }

    /// Ends the run after `steps` steps. Steps before a resumption count.
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Ends the run after `epochs` epochs. Epochs before a resumption count.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// Names the function's scalar fetches, in order. By default they have the names of the
    /// operations that make them.
    pub fn metric_names<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.names = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Says what throughput counts and how much of it a step takes, as in `("examples", 200.0)`. By
    /// default it counts steps.
    pub fn counting(mut self, unit: &str, per_step: f64) -> Self {
        self.pace = Pace::new(unit, per_step);
        self
    }

    /// Evaluates every so often and after the last step. The function gets the run's position and
    /// may use the session as it likes.
    pub fn evaluate(
        mut self,
        every: Every,
        evaluate: impl FnMut(&mut Session, Position) -> Result<Metrics, BoxError> + 't,
    ) -> Self {
        self.evaluation = Some((every, Box::new(evaluate)));
        self
    }

    /// Ends the run after a step once `stop` is true. The state is saved then, and nothing else is
    /// done, so that a resumed run goes on as if it had not stopped.
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Goes on over up to `most` losses in a row that are not finite, for an optimizer that skips their
    /// gradients ([`SkipNotFinite`](crate::SkipNotFinite)); by default none.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # use mesh_optimize::{Optimizer, Sgd, SkipNotFinite, dataset::{Dataset, Remainder}, training::*};
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 2)], F32);
    /// # let loss = x.dense(dim("out", 1), "out").square().mean();
    /// let optimizer = SkipNotFinite::new(Sgd::new(0.1), 3);
    /// g.function("train", [x], [loss], optimizer.minimize(loss));
    /// # let module = g.lower(&Mesh::single(), &Layout::default())?;
    /// # let mut session = Session::threads(&module, 0)?;
    /// # let mut x = ndarray::Array2::<f32>::ones((20, 2));
    /// # x[[5, 0]] = f32::NAN;
    /// # let data = Dataset::from_arrays([("x", x.into())])?.batch(4, Remainder::Drop)?;
    /// let outcome = Trainer::new(&mut session, "train", data).not_finite_losses(3).run()?;
    /// assert_eq!(outcome.position.step, 5);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn not_finite_losses(mut self, most: u64) -> Self {
        self.not_finite_most = most;
        self
    }

    /// Saves every so often and at the end, unless the run failed, with a function instead of
    /// [`checkpoints`](Self::checkpoints). The function stores the variables and the state, and
    /// returns the name it stored them under. Watchers have flushed their files before it is
    /// called.
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
    /// let mut states = Vec::new();
    /// let trainer = Trainer::new(&mut session, "train", data.clone()).steps(3);
    /// trainer.save(Every::Steps(2), |_, state| {
    ///     states.push(state.clone());
    ///     Ok(format!("state {}", states.len()))
    /// }).run()?;
    /// let state = states.pop().ok_or("nothing was saved")?;
    /// let outcome = Trainer::new(&mut session, "train", data).resume(state).steps(5).run()?;
    /// assert_eq!(outcome.position.step, 5);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn save(
        mut self,
        every: Every,
        save: impl FnMut(&mut Session, &TrainingState) -> Result<String, BoxError> + 't,
    ) -> Self {
        self.save = Some((every, Saver::Function(Box::new(save))));
        self
    }

    /// Tells a watcher of everything that happens. Several watchers are told in the order in which
    /// they were added.
    pub fn watch(mut self, watcher: impl Watcher + 't) -> Self {
        self.watchers.push(Box::new(watcher));
        self
    }

    /// Resumes from a state. The session's variables must be as they were when it was saved. See
    /// [`save`](Self::save).
    pub fn resume(mut self, state: TrainingState) -> Self {
        self.state = state;
        self
    }

    /// Trains.
    ///
    /// Probes are shown to the watchers from now on, and not on standard error: this replaces a
    /// function given to [`Session::watch`].
    ///
    /// # Errors
    ///
    /// If a setting makes no sense, the loss is not finite, or the session, the data set, the
    /// evaluation, a save or a watcher fails. Watchers are told before `run` returns.
    pub fn run(self) -> Result<Outcome, TrainingError> {
        self.check()?;
        run::run(self)
    }

    /// Refuses settings that make no sense.
    fn check(&self) -> Result<(), TrainingError> {
        let every = [
            self.evaluation.as_ref().map(|(every, _)| ("evaluate", *every)),
            self.save.as_ref().map(|(every, _)| ("save", *every)),
        ];
        for (what, every) in every.into_iter().flatten() {
            if let Every::Steps(0) | Every::Epochs(0) = every {
                let problem = format!("`{what}` every 0 steps or epochs: 1 or more");
                return Err(TrainingError::Setting { problem });
            }
        }
        self.check_best()
    }
}

#[cfg(test)]
mod tests;
