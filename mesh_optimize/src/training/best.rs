//! The best evaluation of a run: its value, its checkpoint, and when to stop waiting for a better one.

use super::checkpoints::Saver;
use super::{Better, Metrics, Trainer, TrainingError, TrainingState};

/// The metric of evaluations whose best value is kept.
pub(super) struct Best {
    metric: String,
    better: Better,
    /// The number of evaluations without a better value after which the run ends.
    patience: Option<u64>,
}

/// What becomes of the checkpoint of the best evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BestCheckpoint {
    /// It is a checkpoint like others.
    Unkept,
    /// It is saved and kept.
    Kept,
    /// It is kept, and the variables are set to it at the end.
    Restored,
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
            (state.best, state.best_step, state.waited) =
                (Some(value), Some(state.position.step), 0);
        } else {
            state.waited = state.waited.saturating_add(1);
        }
        Ok(())
    }

    /// Whether as many evaluations in a row were not better as the run waits for.
    pub(super) fn gives_up(&self, state: &TrainingState) -> bool {
        self.patience.is_some_and(|patience| state.waited >= patience.max(1))
    }
}

impl Trainer<'_> {
    /// Notes the best value of a metric of the evaluations.
    pub fn best(mut self, metric: &str, better: Better) -> Self {
        self.best = Some(Best { metric: metric.to_owned(), better, patience: None });
        self
    }

    /// As [`best`](Self::best), and ends the run when `patience` evaluations in a row were not
    /// better.
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
    /// let outcome = Trainer::new(&mut session, "train", data)
    ///     .epochs(100)
    ///     .evaluate(Every::Epochs(1), |_, _| Ok(Metrics::from([("accuracy", 0.5)])))
    ///     .stop_early("accuracy", Better::Higher, 3)
    ///     .run()?;
    /// assert_eq!((outcome.position.epoch, outcome.ended), (4, Ended::Early));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn stop_early(mut self, metric: &str, better: Better, patience: u64) -> Self {
        let patience = Some(patience);
        self.best = Some(Best { metric: metric.to_owned(), better, patience });
        self
    }

    /// Saves a checkpoint after each evaluation that is the best so far, and keeps the best one however
    /// old it is: [`TrainingState::best_step`] is its step. A run that was killed and resumed keeps the
    /// same one.
    ///
    /// Needs [`checkpoints`](Self::checkpoints), and [`best`](Self::best) or
    /// [`stop_early`](Self::stop_early), which name the metric.
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
    /// # let path = std::env::temp_dir().join(format!("kept-best-{}", std::process::id()));
    /// use mesh_core::session::checkpoint::Checkpoints;
    ///
    /// let checkpoints = Checkpoints::new(&path).keep_last(1);
    /// Trainer::new(&mut session, "train", data)
    ///     .checkpoints(checkpoints.clone(), Every::Steps(100))
    ///     .evaluate(Every::Steps(1), |_, at| Ok(Metrics::from([("far", at.step.abs_diff(2) as f64)])))
    ///     .best("far", Better::Lower)
    ///     .keep_best()
    ///     .run()?;
    /// assert_eq!(checkpoints.of_step(2)?.step(), 2);
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn keep_best(mut self) -> Self {
        if self.best_checkpoint == BestCheckpoint::Unkept {
            self.best_checkpoint = BestCheckpoint::Kept;
        }
        self
    }

    /// As [`keep_best`](Self::keep_best), and sets the session's variables to the best checkpoint at the
    /// end, unless the run was interrupted or failed. The last checkpoint stays the one of the last
    /// step, so a run that is given more steps goes on from there.
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
    /// # let path = std::env::temp_dir().join(format!("best-{}", std::process::id()));
    /// use mesh_core::session::checkpoint::Checkpoints;
    ///
    /// let outcome = Trainer::new(&mut session, "train", data)
    ///     .checkpoints(Checkpoints::new(&path).keep_last(1), Every::Steps(100))
    ///     .evaluate(Every::Steps(1), |_, at| Ok(Metrics::from([("far", at.step.abs_diff(2) as f64)])))
    ///     .best("far", Better::Lower)
    ///     .restore_best()
    ///     .run()?;
    /// assert_eq!((outcome.position.step, outcome.state.best_step), (5, Some(2)));
    /// assert_eq!(session.read("step")?.item(), Some(2.0));
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn restore_best(mut self) -> Self {
        self.best_checkpoint = BestCheckpoint::Restored;
        self
    }

    /// Whether the checkpoint of the best evaluation is kept.
    pub(super) fn keeps_best(&self) -> bool {
        self.best_checkpoint != BestCheckpoint::Unkept
    }

    /// Refuses settings that lack what the best evaluation needs.
    pub(super) fn check_best(&self) -> Result<(), TrainingError> {
        let problem = match (&self.best, &self.evaluation, &self.save) {
            (Some(best), None, _) => format!(
                "the best `{}` is asked for, but nothing is evaluated: add `.evaluate(..)`",
                best.metric
            ),
            _ if !self.keeps_best() => return Ok(()),
            (None, ..) => "the best checkpoint is asked for, but no metric is named: add \
                           `.best(..)` or `.stop_early(..)`"
                .to_owned(),
            (.., Some((_, Saver::Checkpoints(_)))) => return Ok(()),
            _ => "the best checkpoint is asked for, but none is saved: add `.checkpoints(..)`"
                .to_owned(),
        };
        Err(TrainingError::Setting { problem })
    }
}
