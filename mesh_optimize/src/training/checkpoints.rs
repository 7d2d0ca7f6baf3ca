//! The checkpoints of a run: it resumes from the newest and saves others while it trains.

use super::{BoxError, Every, Position, Trainer, TrainingError, TrainingState};
use mesh_core::session::Session;
use mesh_core::session::checkpoint::{
    Checkpoint, CheckpointError, Checkpoints, Latest, Refused, Restore, State, Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;

/// The names in a checkpoint of the [`TrainingState`] and of the settings, both as JSON. What a
/// watcher needs is saved under the watcher's name.
const STATE: &str = "training";
const SETTINGS: &str = "settings";
const WATCHER: &str = "watcher/";

/// The name of the session's seed among the settings.
const SEED: &str = "seed";

type Settings = BTreeMap<String, String>;
type Save<'t> = dyn FnMut(&mut Session, &TrainingState) -> Result<String, BoxError> + 't;

/// Stores what a run needs to resume.
pub(super) enum Saver<'t> {
    Function(Box<Save<'t>>),
    Checkpoints(Box<Keeper>),
}

/// Writes the checkpoints of a run and reads the newest.
pub(super) struct Keeper {
    checkpoints: Checkpoints,
    /// Made at the first save.
    writer: Option<Writer>,
    /// The position at which the save that is under way began.
    begun: Option<Position>,
}

/// What a run found in its folder of checkpoints.
pub(super) struct Found {
    /// The checkpoint that the session's variables were restored from, and its state.
    pub(super) state: Option<(PathBuf, TrainingState)>,
    pub(super) refused: Vec<Refused>,
}

/// The checkpoint that was written last, its position, and the problems that a person should know
/// of.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) saved: Option<(Position, PathBuf)>,
    pub(super) problems: Vec<CheckpointError>,
}

impl<'t> Trainer<'t> {
    /// Resumes from the newest whole checkpoint of a folder, if there is one. Saves there every so
    /// often and at the end, unless the run failed.
    ///
    /// A run that is killed at any moment and started again with the same session, data and
    /// watchers ends as one that was never killed, and its watchers leave the same files. For that
    /// a checkpoint appears only after the watchers' files are on the disk, and what watchers wrote
    /// after the checkpoint is discarded. On another mesh or under another layout the same holds up
    /// to rounding.
    ///
    /// Training waits while its variables are copied. A thread then writes them, one checkpoint at
    /// a time. Nothing is saved after a call that failed. Where several processes run the module,
    /// each writes its part once the watchers' files of all processes are on the disk.
    ///
    /// A folder belongs to one run at a time: a second run fails with an error that names the
    /// process of the first. The folder is free as soon as its run has ended, however it ended.
    ///
    /// A checkpoint of another model, seed or [settings](Self::settings) is an error of the run. A
    /// folder in which no checkpoint is whole is an error, too, as a new run would overwrite them.
    /// This replaces [`save`](Self::save) and [`resume`](Self::resume).
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
    /// # let path = std::env::temp_dir().join(format!("checkpoints-{}", std::process::id()));
    /// use mesh_core::session::checkpoint::Checkpoints;
    ///
    /// let folder = Checkpoints::new(&path).keep_last(2);
    /// let outcome = Trainer::new(&mut session, "train", data)
    ///     .settings([("optimizer", "sgd".to_owned())])
    ///     .checkpoints(folder, Every::Steps(2))
    ///     .run()?;
    /// assert_eq!(std::fs::read_dir(&path)?.count(), 3); // two checkpoints and the lock
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn checkpoints(mut self, checkpoints: Checkpoints, every: Every) -> Self {
        let keeper = Keeper { checkpoints, writer: None, begun: None };
        self.save = Some((every, Saver::Checkpoints(Box::new(keeper))));
        self
    }

    /// Names what the run depends on besides graph and seed, in words: `("optimizer", "adam")`.
    /// Checkpoints contain it; a run with other settings does not resume from them.
    pub fn settings<'n>(mut self, settings: impl IntoIterator<Item = (&'n str, String)>) -> Self {
        self.settings.extend(settings.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self
    }
}

impl Keeper {
    /// Sets a session to the newest whole checkpoint.
    pub(super) fn resume(
        &self,
        session: &mut Session,
        settings: &Settings,
        keeps_best: bool,
    ) -> Result<Found, TrainingError> {
        let folder = || self.checkpoints.folder().to_owned();
        let error = |reason: BoxError| TrainingError::Resume { path: folder(), reason };
        if session.rank() == 0 {
            self.checkpoints.lock().map_err(|reason| error(reason.into()))?;
        }
        let Latest { checkpoint, mut refused } =
            self.checkpoints.latest().map_err(|reason| error(reason.into()))?;
        let Some(checkpoint) = checkpoint else {
            return match none_is_whole(&refused) {
                None => Ok(Found { state: None, refused }),
                Some(problem) => Err(error(problem.into())),
            };
        };
        let path = checkpoint.path().to_owned();
        let state = restore(&checkpoint, session, settings);
        let mut state =
            state.map_err(|reason| TrainingError::Resume { path: path.clone(), reason })?;
        let best = state.best_step.filter(|step| keeps_best && *step != state.position.step);
        if let Some(Err(error)) = best.map(|step| self.checkpoints.of_step(step)) {
            // Without its checkpoint the best evaluation is nothing to compare others with.
            refused.extend(best.map(|step| Refused { path: self.checkpoints.path(step), error }));
            (state.best, state.best_step) = (None, None);
        }
        Ok(Found { state: Some((path, state)), refused })
    }

    /// Waits until the save that is under way has ended.
    pub(super) fn settle(&mut self) -> Result<Settled, BoxError> {
        let path = self.writer.as_mut().map(Writer::wait).transpose()?.flatten();
        let saved = self.begun.take().zip(path);
        Ok(Settled { saved, problems: self.checkpoints.problems() })
    }

    /// Sets a session's variables to the checkpoint of a step.
    pub(super) fn restore_step(&self, session: &mut Session, step: u64) -> Result<(), BoxError> {
        let checkpoint = self.checkpoints.of_step(step)?;
        session.restore(&checkpoint, &Restore::all())?;
        Ok(())
    }

    /// Copies the variables; a thread writes them once the given files are on the disk. `kept` is the
    /// step whose checkpoint is kept whatever its age. No other save is under way.
    pub(super) fn save(
        &mut self,
        session: &Session,
        state: &TrainingState,
        settings: &Settings,
        files: Vec<(PathBuf, File)>,
        kept: Option<u64>,
    ) -> Result<(), BoxError> {
        self.checkpoints.keep_step(kept);
        let position = state.position;
        let watchers = state.watchers.iter();
        let mut texts: State =
            watchers.map(|(name, text)| (format!("{WATCHER}{name}"), text.clone())).collect();
        let state = TrainingState { watchers: BTreeMap::new(), ..state.clone() };
        texts.insert(STATE.to_owned(), serde_json::to_string(&state)?);
        texts.insert(SETTINGS.to_owned(), serde_json::to_string(settings)?);
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(Writer::new(self.checkpoints.clone())?),
        };
        writer.save_after(files, session, position.step, texts)?;
        self.begun = Some(position);
        Ok(())
    }
}

/// Sets a session to a checkpoint of this run. A checkpoint of another run is refused, and the
/// session stays as it is.
fn restore(
    checkpoint: &Checkpoint,
    session: &mut Session,
    settings: &Settings,
) -> Result<TrainingState, BoxError> {
    let Some(state) = checkpoint.state().get(STATE) else {
        return Err("it was not saved by a training run: restore its variables instead".into());
    };
    let mut state: TrainingState = read(STATE, state)?;
    state.watchers.extend(checkpoint.state().iter().filter_map(|(name, text)| {
        let watcher = name.strip_prefix(WATCHER)?;
        Some((watcher.to_owned(), text.clone()))
    }));
    let then = checkpoint.state().get(SETTINGS).map(|text| read(SETTINGS, text)).transpose()?;
    if let Some(problem) = other(
        with_seed(then.unwrap_or_default(), checkpoint.seed()),
        with_seed(settings.clone(), session.seed()),
    ) {
        return Err(problem.into());
    }
    session.restore(checkpoint, &Restore::all()).map_err(|error| match error {
        CheckpointError::Unfit(unfit) => {
            BoxError::from(format!("it is of another model or optimizer: {unfit}"))
        }
        error => error.into(),
    })?;
    Ok(state)
}

fn read<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T, BoxError> {
    serde_json::from_str(text)
        .map_err(|error| format!("its `{what}` is not readable: {error}").into())
}

fn with_seed(mut settings: Settings, seed: u64) -> Settings {
    settings.insert(SEED.to_owned(), seed.to_string());
    settings
}

/// The settings in which two runs differ, in words.
fn other(then: Settings, now: Settings) -> Option<String> {
    let names: BTreeSet<_> = then.keys().chain(now.keys()).collect();
    let value = |settings: &Settings, name| settings.get(name).map_or("nothing", |v| v).to_owned();
    let differing: Vec<_> = names
        .into_iter()
        .map(|name| (name, value(&then, name), value(&now, name)))
        .filter(|(_, then, now)| then != now)
        .map(|(name, then, now)| format!("{name} was {then} and is {now}"))
        .collect();
    (!differing.is_empty()).then(|| {
        format!(
            "it is of another run: {}; run as then to go on, or name another folder",
            differing.join(", ")
        )
    })
}

/// The problem with a folder in which every checkpoint was refused; `None` if it has none at all.
fn none_is_whole(refused: &[Refused]) -> Option<String> {
    let lines = refused.iter().map(|refused| format!("\n  {}", refused.error));
    (!refused.is_empty()).then(|| {
        format!("no checkpoint is whole; move them away to begin anew{}", lines.collect::<String>())
    })
}
