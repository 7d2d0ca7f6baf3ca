//! Runs the training loop.

use super::best::BestCheckpoint;
use super::checkpoints::{Saver, Settled};
use super::watcher::{names, tell};
use super::{
    BoxError, Ended, Evaluated, Metrics, Outcome, Position, Start, Step, Trainer, TrainingError,
    Watcher,
};
use crate::dataset::{Record, Records};
use mesh_core::array::{Array, ArrayRef};
use mesh_core::session;
use std::fs::File;
use std::iter::Peekable;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

type Result<T, E = TrainingError> = std::result::Result<T, E>;

pub(super) fn run(mut trainer: Trainer<'_>) -> Result<Outcome> {
    if let Some(progress) = trainer.progress.take() {
        trainer.watchers.insert(0, Box::new(progress));
    }
    let mut running = Running {
        trainer,
        records: None,
        metrics: Metrics::new(),
        has_loss: false,
        evaluation: None,
        saved_at: None,
        recording: false,
    };
    let trained = running.train();
    if running.recording {
        // What can be turned on can be turned off.
        let _ = running.trainer.session.record(false);
    }
    match trained {
        Ok(outcome) => {
            running.tell(|watcher| watcher.finish(&outcome))?;
            Ok(outcome)
        }
        Err(error) => {
            let outcome = running.outcome(Ended::Failed);
            // If a watcher fails now, too, the first error is still the one to report.
            let _ = running.tell(|watcher| watcher.finish(&outcome));
            Err(error)
        }
    }
}

/// A run that is under way.
struct Running<'t> {
    trainer: Trainer<'t>,
    /// The remaining records of the epoch.
    records: Option<Peekable<Records>>,
    metrics: Metrics,
    /// Whether the first metric is a fetch, and therefore the loss.
    has_loss: bool,
    evaluation: Option<Metrics>,
    /// The step after which the state was saved last.
    saved_at: Option<u64>,
    /// Whether the session records times because a watcher wants them.
    recording: bool,
}

impl Running<'_> {
    fn train(&mut self) -> Result<Outcome> {
        self.trainer.session.watch(|_, _| {});
        self.begin()?;
        let ended = loop {
            if let Some(ended) = self.ended() {
                break ended;
            }
            self.step()?;
            let (position, last) = (self.trainer.state.position, self.is_finished());
            let evaluation = self.trainer.evaluation.as_ref();
            if evaluation.is_some_and(|(every, _)| last || every.due(position)) {
                self.evaluate()?;
            }
            let best = self.trainer.state.best_step == Some(position.step);
            let best = best && self.trainer.keeps_best();
            if best || self.trainer.save.as_ref().is_some_and(|(every, _)| every.due(position)) {
                self.save()?;
            }
        };
        // Dropping the records ends their prefetching.
        self.records = None;
        if self.saved_at != Some(self.trainer.state.position.step) {
            self.save()?;
        }
        self.settle()?;
        if matches!(ended, Ended::Finished | Ended::Early) {
            self.restore_best()?;
        }
        Ok(self.outcome(ended))
    }

    /// Resumes from a checkpoint if there is one, and tells the watchers that the run starts.
    fn begin(&mut self) -> Result<()> {
        let keeps_best = self.trainer.keeps_best();
        let Trainer { session, state, save, settings, .. } = &mut self.trainer;
        let (mut from, mut refused) = (None, Vec::new());
        if let Some((_, Saver::Checkpoints(keeper))) = save {
            let found = keeper.resume(session, settings, keeps_best)?;
            refused = found.refused;
            if let Some((path, saved)) = found.state {
                self.saved_at = Some(saved.position.step);
                (*state, from) = (saved, Some(path));
            }
        }
        let steps = self.total();
        let Trainer { session, function, state, watchers, .. } = &mut self.trainer;
        let position = state.position;
        let names = names(watchers);
        for (watcher, name) in watchers.iter_mut().zip(names) {
            let (from, refused) = (from.as_deref(), &refused[..]);
            let start = Start { session, function, position, steps, from, refused };
            let saved = state.watchers.get(&name).map(String::as_str);
            let step = position.step;
            watcher.start(&start, saved).map_err(|reason| TrainingError::Watcher {
                name,
                step,
                reason,
            })?;
        }
        Ok(())
    }

    /// How the run has ended; `None` while it goes on.
    fn ended(&self) -> Option<Ended> {
        let Trainer { best, state, stop, session, .. } = &self.trainer;
        if self.is_finished() {
            return Some(Ended::Finished);
        }
        if best.as_ref().is_some_and(|best| best.gives_up(state)) {
            return Some(Ended::Early);
        }
        let stop = stop.as_ref().is_some_and(|stop| session.any(stop.load(Ordering::Relaxed)));
        stop.then_some(Ended::Interrupted)
    }

    fn is_finished(&self) -> bool {
        let position = self.trainer.state.position;
        self.trainer.steps.is_some_and(|steps| position.step >= steps)
            || self.epochs().is_some_and(|epochs| position.epoch >= epochs)
    }

    /// The number of epochs after which the run ends, if it is limited.
    fn epochs(&self) -> Option<u64> {
        let Trainer { steps, epochs, .. } = &self.trainer;
        if steps.is_none() { Some(epochs.unwrap_or(1)) } else { *epochs }
    }

    /// The number of steps after which the run ends, if it is known.
    fn total(&self) -> Option<u64> {
        let epoch = self.trainer.data.cardinality();
        let epochs = self.epochs().and_then(|epochs| Some(epochs.saturating_mul(epoch?)));
        self.trainer.steps.into_iter().chain(epochs).min()
    }

    fn step(&mut self) -> Result<()> {
        let begun = Instant::now();
        let record = self.take_record()?;
        let step = self.trainer.state.position.step.saturating_add(1);
        self.record_times(step)?;
        self.call(&record, step)?;
        let ends = self.records.as_mut().is_none_or(|records| records.peek().is_none());
        let seconds = begun.elapsed().as_secs_f64();
        let position = &mut self.trainer.state.position;
        (position.step, position.record) = (step, position.record.saturating_add(1));
        if ends {
            (position.epoch, position.record) = (position.epoch.saturating_add(1), 0);
            self.records = None;
        }
        let left = self.total().map(|total| total.saturating_sub(step));
        self.trainer.pace.note(seconds, left);
        self.tell_step(seconds)?;
        self.judge_loss(step)
    }

    /// Ends the run if there were too many losses in a row that are not finite.
    fn judge_loss(&mut self, step: u64) -> Result<()> {
        let loss = self.metrics.iter().next().filter(|_| self.has_loss);
        let Some((name, value)) = loss.filter(|(_, value)| !value.is_finite()) else {
            self.trainer.state.not_finite = 0;
            return Ok(());
        };
        let in_a_row = &mut self.trainer.state.not_finite;
        *in_a_row = in_a_row.saturating_add(1);
        if *in_a_row <= self.trainer.not_finite_most {
            return Ok(());
        }
        Err(TrainingError::NotFinite { name: name.to_owned(), value, step })
    }

    /// The next record of the current epoch.
    fn take_record(&mut self) -> Result<Record> {
        let Position { step, epoch, record } = self.trainer.state.position;
        let error =
            |reason| TrainingError::Data { step: step.saturating_add(1), epoch, record, reason };
        let other = || TrainingError::OtherData { epoch, record };
        if self.records.is_none() {
            let taken = usize::try_from(record).map_err(|_| other())?;
            let Trainer { session, function, data, .. } = &self.trainer;
            let error = |reason| TrainingError::Session { step: step.saturating_add(1), reason };
            let data = data.addressable(session, function).map_err(error)?;
            self.records = Some(data.skip(taken).pass(epoch).peekable());
        }
        match self.records.as_mut().and_then(Iterator::next) {
            Some(taken) => taken.map_err(error),
            None if record > 0 => Err(other()),
            None => Err(TrainingError::NoRecords { epoch }),
        }
    }

    /// Has the session record times if a watcher wants them.
    fn record_times(&mut self, step: u64) -> Result<()> {
        let wanted = self.trainer.watchers.iter().any(|watcher| watcher.wants_times(step));
        if wanted != self.recording {
            let recorded = self.trainer.session.record(wanted);
            recorded.map_err(|reason| TrainingError::Session { step, reason })?;
            self.recording = wanted;
        }
        Ok(())
    }

    /// Calls the function and collects its scalars.
    fn call(&mut self, record: &Record, step: u64) -> Result<()> {
        let Trainer { session, function, names, .. } = &mut self.trainer;
        let error = |reason: session::Error| TrainingError::Session { step, reason };
        let feeds: Vec<(&str, ArrayRef<'_>)> =
            record.arrays().map(|(name, array)| (name, array.view())).collect();
        let fetched = session.call_named(function, &feeds).map_err(error)?;
        let scalars = fetched.iter().filter(|(_, array)| is_scalar(array));
        let count = scalars.clone().count();
        if names.len() > count {
            let problem = format!(
                "{} metrics are named ({}), but `{function}` fetches {count} scalars",
                names.len(),
                names.join(", ")
            );
            return Err(TrainingError::Setting { problem });
        }
        for (number, (name, array)) in scalars.enumerate() {
            let name = names.get(number).unwrap_or(name);
            self.metrics.set(name, array.item().unwrap_or(f64::NAN));
        }
        self.has_loss = count > 0;
        let shown = session.shown(function).map_err(error)?;
        for (label, array) in shown.filter(|(_, array)| is_scalar(array)) {
            self.metrics.set(label, array.item().unwrap_or(f64::NAN));
        }
        Ok(())
    }

    fn tell_step(&mut self, seconds: f64) -> Result<()> {
        let Trainer { session, function, watchers, pace, state, .. } = &mut self.trainer;
        let (position, session) = (state.position, &**session);
        let error = |reason| TrainingError::Session { step: position.step, reason };
        let tensors: Vec<_> = session
            .shown(function)
            .map_err(error)?
            .filter(|(_, array)| !is_scalar(array))
            .collect();
        let (metrics, tensors) = (&self.metrics, &tensors[..]);
        let step = Step { session, position, metrics, tensors, seconds, pace };
        tell(watchers, position.step, |watcher| watcher.step(&step))
    }

    fn evaluate(&mut self) -> Result<()> {
        let Trainer { session, watchers, pace, state, evaluation, best, .. } = &mut self.trainer;
        let Some((_, evaluate)) = evaluation else { return Ok(()) };
        let (position, begun) = (state.position, Instant::now());
        let step = position.step;
        let metrics = evaluate(session, position)
            .map_err(|reason| TrainingError::Evaluation { step, reason })?;
        let seconds = begun.elapsed().as_secs_f64();
        if let Some(best) = best {
            best.note(&metrics, state)?;
        }
        let (metrics, best) = (self.evaluation.insert(metrics), state.best);
        let evaluated = Evaluated { session, position, metrics, best, seconds, pace };
        tell(watchers, step, |watcher| watcher.evaluation(&evaluated))
    }

    /// Has the watchers flush their files and gives the state to the saver.
    fn save(&mut self) -> Result<()> {
        let keeps_best = self.trainer.keeps_best();
        let Trainer { session, watchers, state, save, settings, .. } = &mut self.trainer;
        let step = state.position.step;
        let names = names(watchers);
        state.watchers.clear();
        let mut files = Vec::new();
        for (watcher, name) in watchers.iter_mut().zip(names) {
            let saved = watcher.save().and_then(|saved| Ok((saved, watcher.file()?)));
            let error = |reason| TrainingError::Watcher { name: name.clone(), step, reason };
            let (saved, file) = saved.map_err(error)?;
            files.extend(file);
            state.watchers.insert(name, saved);
        }
        self.saved_at = Some(step);
        let error = |reason| TrainingError::Save { step, reason };
        match save {
            None => sync(&files).map_err(error),
            Some((_, Saver::Function(save))) => {
                let saved = sync(&files).and_then(|()| save(session, state));
                let name = saved.map_err(error)?;
                tell(watchers, step, |watcher| watcher.saved(state.position, &name))
            }
            Some((_, Saver::Checkpoints(keeper))) => {
                let before = keeper.settle().map_err(error)?;
                let kept = state.best_step.filter(|_| keeps_best);
                keeper.save(session, state, settings, files, kept).map_err(error)?;
                tell_settled(watchers, state.position, before)
            }
        }
    }

    /// Waits for the checkpoint that is being written.
    fn settle(&mut self) -> Result<()> {
        let Trainer { watchers, state, save, .. } = &mut self.trainer;
        let Some((_, Saver::Checkpoints(keeper))) = save else { return Ok(()) };
        let step = state.position.step;
        let settled = keeper.settle().map_err(|reason| TrainingError::Save { step, reason })?;
        tell_settled(watchers, state.position, settled)
    }

    /// Sets the variables to the best checkpoint if that is asked for.
    fn restore_best(&mut self) -> Result<()> {
        let Trainer { session, watchers, state, save, best_checkpoint, .. } = &mut self.trainer;
        let (BestCheckpoint::Restored, Some((_, Saver::Checkpoints(keeper)))) =
            (best_checkpoint, save)
        else {
            return Ok(());
        };
        let position = state.position;
        match state.best_step {
            Some(step) if step == position.step => Ok(()),
            Some(step) => {
                let restored = keeper.restore_step(session, step);
                restored.map_err(|reason| TrainingError::Best { step, reason })
            }
            None => {
                let problem = "no evaluation had a finite value, so there is no best checkpoint; the \
                               variables are those of the last step";
                tell(watchers, position.step, |watcher| watcher.warning(position, problem))
            }
        }
    }

    fn tell(&mut self, what: impl FnMut(&mut dyn Watcher) -> Result<(), BoxError>) -> Result<()> {
        let step = self.trainer.state.position.step;
        tell(&mut self.trainer.watchers, step, what)
    }

    fn outcome(&self, ended: Ended) -> Outcome {
        let state = self.trainer.state.clone();
        let (metrics, evaluation) = (self.metrics.clone(), self.evaluation.clone());
        let (position, best, pace) = (state.position, state.best, self.trainer.pace.clone());
        Outcome { ended, position, best, metrics, evaluation, pace, state }
    }
}

fn is_scalar(array: &Array) -> bool {
    array.shape().is_empty()
}

/// Waits until the files are on the disk.
fn sync(files: &[(PathBuf, File)]) -> Result<(), BoxError> {
    files.iter().try_for_each(|(path, file)| {
        file.sync_data().map_err(|error| format!("{}: {error}", path.display()).into())
    })
}

/// Tells watchers of a finished checkpoint and of the problems with it.
pub(super) fn tell_settled(
    watchers: &mut [Box<dyn Watcher + '_>],
    now: Position,
    Settled { saved, problems }: Settled,
) -> Result<()> {
    for problem in problems {
        tell(watchers, now.step, |watcher| watcher.warning(now, &problem.to_string()))?;
    }
    let Some((position, path)) = saved else { return Ok(()) };
    tell(watchers, now.step, |watcher| watcher.saved(position, &path.to_string_lossy()))
}
