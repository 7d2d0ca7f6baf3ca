//! The training loop, and what watches it.
//!
//! A [`Trainer`] calls one function of a session again and again: each record of a [`Dataset`] is
//! what one call is fed, one pass of it is an epoch. Every scalar that the function fetches is a
//! metric, and so is every scalar [`probe`](mesh_core::graph::Tensor::probe); probes of larger
//! tensors are histograms. [`Watcher`]s are told of each step and evaluation: [`MetricsFile`] writes
//! JSON lines, [`EventFile`] what TensorBoard reads, [`ReportFile`] a page to look at.
//!
//! All that a run has to know to go on later, but for the variables, is a [`TrainingState`]. With
//! [`Trainer::checkpoints`] both are saved, and a run that was stopped, or killed, goes on.
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

mod checkpoints;
mod error;
mod events;
mod metrics;
mod pace;
mod report;
mod run;
mod state;
mod trace;
mod watcher;

pub use error::TrainingError;
pub use events::EventFile;
pub use metrics::{Metrics, MetricsFile};
pub use pace::Pace;
pub use report::{
    AxisPicture, Bin, Chart, Curve, DimPicture, LayoutPicture, OperationTime, Report, ReportFile,
    Traffic, VariablePicture,
};
pub use state::{Better, Ended, Every, Outcome, Position, TrainingState};
pub use trace::TraceFile;
pub use watcher::{Evaluated, Start, Step, Watcher};

use crate::dataset::Dataset;
use checkpoints::Saver;
use mesh_core::session::Session;
use state::Best;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a user's part of a run may fail with.
pub type BoxError = Box<dyn Error + Send + Sync>;

type Evaluate<'t> = dyn FnMut(&mut Session, Position) -> Result<Metrics, BoxError> + 't;

/// A training run, described; [`run`](Self::run) is the run.
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
    save: Option<(Every, Saver<'t>)>,
    settings: BTreeMap<String, String>,
    stop: Option<Arc<AtomicBool>>,
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
    /// Calls `function` for each record of `data`, whose arrays are its feeds by name. Pass `n` of
    /// the data ([`Dataset::pass`]) is epoch `n`, from 0. Without [`steps`](Self::steps) and
    /// [`epochs`](Self::epochs) it is one epoch.
    ///
    /// The function's first scalar fetch is the loss: if it is not finite, the run ends with an
    /// error.
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
            save: None,
            settings: BTreeMap::new(),
            stop: None,
            watchers: Vec::new(),
            state: TrainingState::default(),
        }
    }

    /// Ends after so many steps, those before a resumption counted.
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Ends after so many epochs, those before a resumption counted.
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// What the function's scalar fetches are called, in order, instead of the names of the
    /// operations that make them.
    pub fn metric_names<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.names = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// What throughput counts, and how many of it one step takes: `("examples", 200.0)`. Steps
    /// otherwise.
    pub fn counting(mut self, unit: &str, per_step: f64) -> Self {
        self.pace = Pace::new(unit, per_step);
        self
    }

    /// Evaluates every so often and after the last step. The function is told where the run is, and
    /// may do with the session what it likes.
    pub fn evaluate(
        mut self,
        every: Every,
        evaluate: impl FnMut(&mut Session, Position) -> Result<Metrics, BoxError> + 't,
    ) -> Self {
        self.evaluation = Some((every, Box::new(evaluate)));
        self
    }

    /// Follows the best value of a metric of evaluations.
    pub fn best(mut self, metric: &str, better: Better) -> Self {
        self.best = Some(Best { metric: metric.to_owned(), better, patience: None });
        self
    }

    /// As [`best`](Self::best), and ends when `patience` evaluations in a row were not better.
    pub fn stop_early(mut self, metric: &str, better: Better, patience: u64) -> Self {
        let patience = Some(patience);
        self.best = Some(Best { metric: metric.to_owned(), better, patience });
        self
    }

    /// Ends after the step under way once this is true, as a handler of Ctrl-C would set it.
    /// Everything is saved then, and nothing done that a run which goes on would not do there.
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Saves every so often and at the end, unless that is a failure, in another way than
    /// [`checkpoints`](Self::checkpoints). The function stores variables and state, and says under
    /// which name. Watchers have everything written down by then.
    pub fn save(
        mut self,
        every: Every,
        save: impl FnMut(&mut Session, &TrainingState) -> Result<String, BoxError> + 't,
    ) -> Self {
        self.save = Some((every, Saver::Function(Box::new(save))));
        self
    }

    /// Tells a watcher of everything. Several are told in the order in which they came.
    pub fn watch(mut self, watcher: impl Watcher + 't) -> Self {
        self.watchers.push(Box::new(watcher));
        self
    }

    /// Goes on from a state, for which the session's variables are as they were then.
    pub fn resume(mut self, state: TrainingState) -> Self {
        self.state = state;
        self
    }

    /// Trains.
    ///
    /// What probes see goes to the watchers from now on, not to standard error: a function given to
    /// [`Session::watch`] is replaced.
    pub fn run(self) -> Result<Outcome, TrainingError> {
        self.check()?;
        run::run(self)
    }

    /// What the description alone shows to be wrong.
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
        if let (Some(best), None) = (&self.best, &self.evaluation) {
            let problem = format!(
                "the best `{}` is asked for, but nothing is evaluated: add `.evaluate(..)`",
                best.metric
            );
            return Err(TrainingError::Setting { problem });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
