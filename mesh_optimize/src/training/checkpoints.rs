//! Checkpoints of a run: going on from the newest, saving others beside training.

use super::{BoxError, Every, Position, Trainer, TrainingError, TrainingState};
use mesh_core::session::Session;
use mesh_core::session::checkpoint::{
    Checkpoint, CheckpointError, Checkpoints, Latest, Refused, Restore, State, Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;

/// What checkpoints call the [`TrainingState`] and the settings; both are JSON. What each watcher needs
/// stands beside them under its own name.
const STATE: &str = "training";
const SETTINGS: &str = "settings";
const WATCHER: &str = "watcher/";

/// What settings call the session's seed.
const SEED: &str = "seed";

type Settings = BTreeMap<String, String>;
type Save<'t> = dyn FnMut(&mut Session, &TrainingState) -> Result<String, BoxError> + 't;

/// Who stores what a run needs to go on.
pub(super) enum Saver<'t> {
    Function(Box<Save<'t>>),
    Checkpoints(Box<Keeper>),
}

/// Keeps the checkpoints of a run.
pub(super) struct Keeper {
    checkpoints: Checkpoints,
    /// Begun with the first save.
    writer: Option<Writer>,
    /// Where the run was when it began the save that is under way.
    begun: Option<Position>,
}

/// What a folder of checkpoints has for a run.
pub(super) struct Found {
    /// The checkpoint that the session's variables are from now, and the state in it.
    pub(super) state: Option<(PathBuf, TrainingState)>,
    pub(super) refused: Vec<Refused>,
}

/// What was saved, where the run was then, and what a person should know of it.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) saved: Option<(Position, PathBuf)>,
    pub(super) problems: Vec<CheckpointError>,
}

impl<'t> Trainer<'t> {
    /// Goes on from the newest whole checkpoint of a folder, if there is one, and saves there every
    /// so often and at the end, unless that is a failure.
    ///
    /// A run that is killed at any moment and begun again with the same session, data and watchers
    /// comes to the same end, in which its watchers wrote the same: each checkpoint is there only
    /// once what watchers had written by then is on the disk, and what they wrote after it is
    /// forgotten. On another mesh, or under another layout, the same holds but for rounding.
    ///
    /// Training waits for the copy of its variables; a thread writes them, one checkpoint at a time.
    /// Nothing is saved after a call that failed. Of several processes that run the module each writes
    /// its part, and what the watchers of any of them wrote is on the disk first.
    ///
    /// One run at a time has a folder; a second one is an error of that run, which names the process of
    /// the first. A folder is free as soon as its run has ended, however it did.
    ///
    /// A checkpoint of another model, seed or [settings](Self::settings) is an error of the run. So
    /// is a folder with checkpoints of which none is whole, since a run that begins anew would write
    /// over what belongs to them. Replaces [`save`](Self::save) and [`resume`](Self::resume).
    pub fn checkpoints(mut self, checkpoints: Checkpoints, every: Every) -> Self {
        let keeper = Keeper { checkpoints, writer: None, begun: None };
        self.save = Some((every, Saver::Checkpoints(Box::new(keeper))));
        self
    }

    /// What the run follows from beside graph and seed, in words: `("optimizer", "adam")`.
    /// Checkpoints keep it, and a run with other settings does not go on from them.
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
    ) -> Result<Found, TrainingError> {
        let folder = || self.checkpoints.folder().to_owned();
        let error = |reason: BoxError| TrainingError::Resume { path: folder(), reason };
        if session.rank() == 0 {
            self.checkpoints.lock().map_err(|reason| error(reason.into()))?;
        }
        let Latest { checkpoint, refused } =
            self.checkpoints.latest().map_err(|reason| error(reason.into()))?;
        let Some(checkpoint) = checkpoint else {
            return match none_is_whole(&refused) {
                None => Ok(Found { state: None, refused }),
                Some(problem) => Err(error(problem.into())),
            };
        };
        let path = checkpoint.path().to_owned();
        let state = restore(&checkpoint, session, settings);
        let state = state.map_err(|reason| TrainingError::Resume { path: path.clone(), reason })?;
        Ok(Found { state: Some((path, state)), refused })
    }

    /// Waits for the save under way.
    pub(super) fn settle(&mut self) -> Result<Settled, BoxError> {
        let path = self.writer.as_mut().map(Writer::wait).transpose()?.flatten();
        let saved = self.begun.take().zip(path);
        Ok(Settled { saved, problems: self.checkpoints.problems() })
    }

    /// Copies the variables and has them saved, once these files are on the disk.
    pub(super) fn save(
        &mut self,
        session: &Session,
        state: &TrainingState,
        settings: &Settings,
        files: Vec<(PathBuf, File)>,
    ) -> Result<(), BoxError> {
        let position = state.position;
        let watchers = state.watchers.iter();
        let mut kept: State =
            watchers.map(|(name, text)| (format!("{WATCHER}{name}"), text.clone())).collect();
        let (best, waited, watchers) = (state.best, state.waited, BTreeMap::new());
        let state = TrainingState { position, best, waited, watchers };
        kept.insert(STATE.to_owned(), serde_json::to_string(&state)?);
        kept.insert(SETTINGS.to_owned(), serde_json::to_string(settings)?);
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(Writer::new(self.checkpoints.clone())?),
        };
        writer.save_after(files, session, position.step, kept)?;
        self.begun = Some(position);
        Ok(())
    }
}

/// Sets a session to a checkpoint of this run; another run's is refused, and changes nothing.
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

/// In what two runs differ.
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

/// What is wrong with a folder in which every checkpoint was refused.
fn none_is_whole(refused: &[Refused]) -> Option<String> {
    let lines = refused.iter().map(|refused| format!("\n  {}", refused.error));
    (!refused.is_empty()).then(|| {
        format!("no checkpoint is whole; move them away to begin anew{}", lines.collect::<String>())
    })
}
