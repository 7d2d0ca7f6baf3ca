//! A folder of checkpoints: saves, finds and deletes them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attempt::Attempt;
use super::disk::Disk;
use super::lock::Claim;
use super::{Checkpoint, CheckpointError, Result, Snapshot, State};

/// How many checkpoints are kept by default.
const KEPT: usize = 3;

/// The suffix of a checkpoint's name while a new checkpoint of the same step replaces it.
const REPLACED: &str = ".replaced";

/// A folder that has one checkpoint per step, and rules for which of them to keep. One process at a
/// time saves to it, or the ranks of one job together; see [`lock`](Self::lock).
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    last: usize,
    every: Option<u64>,
    /// A step whose checkpoint is kept. Clones share it.
    named: Arc<Mutex<Option<u64>>>,
    /// Clones share it.
    claim: Arc<Mutex<Claim>>,
    pub(super) disk: Disk,
}

/// The result of [`Checkpoints::latest`].
#[derive(Debug)]
pub struct Latest {
    /// The newest whole checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Newer folders that are no whole checkpoints, the newest first. Callers should report them.
    pub refused: Vec<Refused>,
}

/// A folder that has a checkpoint's name and is no whole checkpoint.
#[derive(Debug)]
pub struct Refused {
    /// Its folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: CheckpointError,
}

/// A folder that has a checkpoint's name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    step: u64,
    /// Whether it has the plain name, not the one of a checkpoint that is being replaced.
    current: bool,
    path: PathBuf,
}

impl Candidate {
    fn new(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix("step-")?;
        let digits = name.strip_suffix(REPLACED).unwrap_or(name);
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let step = plain.then(|| digits.parse().ok())??;
        Some(Self { step, current: digits == name, path })
    }
}

impl Checkpoints {
    /// The checkpoints in a folder. The folder is made when the first is saved.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let (named, claim, disk) = (Arc::default(), Arc::default(), Disk::default());
        Self { folder: folder.into(), last: KEPT, every: None, named, claim, disk }
    }

    /// Keeps `count` of the newest checkpoints, at least 1. The default is 3.
    pub fn keep_last(mut self, count: usize) -> Self {
        self.last = count.max(1);
        self
    }

    /// Also keeps every checkpoint whose step is a multiple of `steps`. 0, the default, keeps none
    /// of them.
    pub fn keep_every(mut self, steps: u64) -> Self {
        self.every = (steps > 0).then_some(steps);
        self
    }

    /// Also keeps the checkpoint of one step, such as the best one, until another step is named. It
    /// counts for this value and its clones, from the next save on.
    pub fn keep_step(&self, step: Option<u64>) {
        *self.named.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reserves the folder for this process, and makes it if it is missing. The reservation ends
    /// when this value and all of its clones are dropped, or when the process ends.
    ///
    /// [`save`](Self::save) reserves the folder, too; call this to find out earlier. Where several
    /// processes run one module, rank 0 calls it. If the file system has no locks,
    /// [`problems`](Self::problems) says so.
    ///
    /// # Errors
    ///
    /// If another process has reserved the folder, which the error names, or if the folder cannot
    /// be made.
    pub fn lock(&self) -> Result<()> {
        self.disk.create_folder(&self.folder)?;
        self.claim().take(&self.folder)
    }

    /// The problems since the last call of this method that did not prevent a save: what is left of
    /// an earlier run, or should not be kept, and cannot be removed. Each is returned once.
    pub fn problems(&self) -> Vec<CheckpointError> {
        self.claim().problems()
    }

    fn claim(&self) -> MutexGuard<'_, Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the error of `done` for [`problems`](Self::problems), as the entry may stay as it is.
    fn tolerate(&self, with: &Path, done: Result<()>) {
        if let Err(problem) = done {
            self.claim().note(with, problem);
        }
    }

    /// Saves a checkpoint and returns its folder. The checkpoint appears when it is whole, and
    /// replaces one of the same step. Then deletes the checkpoints that are not to be kept.
    ///
    /// Where several processes run one module, all of them save at the same step, each its part of
    /// one snapshot, in a folder that all of them see. Each writes its slices, and rank 0 renames
    /// the folder.
    ///
    /// # Errors
    ///
    /// If the disk fails, another process has reserved the folder, or a rank fails or writes
    /// nothing for longer than the deadline. Then there is no checkpoint, and all ranks get an
    /// error.
    pub fn save(&self, step: u64, snapshot: &Snapshot, state: &State) -> Result<PathBuf> {
        self.save_after(|| Ok(()), step, snapshot, state)
    }

    /// [`save`](Self::save), where the checkpoint appears only after `before` has succeeded.
    pub(super) fn save_after(
        &self,
        before: impl FnOnce() -> Result<()>,
        step: u64,
        snapshot: &Snapshot,
        state: &State,
    ) -> Result<PathBuf> {
        let path = self.path(step);
        let attempt = Attempt::new(&self.disk, self.hidden(&path, &snapshot.attempt()), snapshot)?;
        if snapshot.processes.rank > 0 {
            return attempt.follow(before, &path).map(|()| path);
        }
        self.lock()?;
        self.remove_unfinished()?;
        let written = attempt.lead(before, step, state);
        if let Err(error) = written.and_then(|()| self.commit(attempt.folder(), &path)) {
            attempt.abandon(&error);
            return Err(error);
        }
        self.tolerate(&self.folder, self.prune(step));
        Ok(path)
    }

    /// Reads the newest whole checkpoint, if there is one, and lists newer folders that are not
    /// whole. A missing folder has no checkpoints.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn latest(&self) -> Result<Latest> {
        let mut refused = Vec::new();
        for Candidate { path, .. } in self.candidates()? {
            match Checkpoint::open(&path) {
                Ok(checkpoint) => return Ok(Latest { checkpoint: Some(checkpoint), refused }),
                Err(error) => refused.push(Refused { path, error }),
            }
        }
        Ok(Latest { checkpoint: None, refused })
    }

    /// Reads the checkpoint of a step.
    ///
    /// # Errors
    ///
    /// If there is none, or it is not whole.
    pub fn of_step(&self, step: u64) -> Result<Checkpoint> {
        Checkpoint::open(self.path(step))
    }

    /// The folder of the checkpoint of a step.
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("step-{step:010}"))
    }

    /// A hidden name for a folder that will be renamed to `path`, or was renamed from it.
    fn hidden(&self, path: &Path, own: &str) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.folder.join(format!(".{name}.tmp-{own}"))
    }

    fn entries(&self) -> Result<Vec<PathBuf>> {
        let io = |source| CheckpointError::Io {
            action: "look through",
            path: self.folder.clone(),
            source,
        };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io)?,
        };
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(io)).collect()
    }

    /// The folders that have a checkpoint's name, the newest first.
    fn candidates(&self) -> Result<Vec<Candidate>> {
        let mut found: Vec<_> = self.entries()?.into_iter().filter_map(Candidate::new).collect();
        found.sort_by(|a, b| b.cmp(a));
        Ok(found)
    }

    /// Removes, as far as possible, what killed processes left.
    fn remove_unfinished(&self) -> Result<()> {
        let left = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(".step-") && name.contains(".tmp-"))
        };
        for path in self.entries()?.iter().filter(|path| left(path)) {
            self.tolerate(path, self.disk.remove(path));
        }
        Ok(())
    }

    /// Renames a written folder to `path`. If `path` exists, it is renamed first, so that at any
    /// time one of the two has a name that [`latest`](Self::latest) finds.
    fn commit(&self, unfinished: &Path, path: &Path) -> Result<()> {
        let mut replaced = path.as_os_str().to_owned();
        replaced.push(REPLACED);
        let replaced = PathBuf::from(replaced);
        if fs::symlink_metadata(path).is_ok() {
            self.discard(&replaced)?;
            self.disk.rename(path, &replaced)?;
        }
        self.disk.rename(unfinished, path)?;
        self.disk.sync_folder(&self.folder)?;
        self.tolerate(&replaced, self.discard(&replaced));
        Ok(())
    }

    /// Removes a checkpoint. It is renamed first, so that a process killed here leaves no part of
    /// it under a checkpoint's name.
    fn discard(&self, path: &Path) -> Result<()> {
        if fs::symlink_metadata(path).is_err() {
            return Ok(());
        }
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.hidden(path, &format!("{}-{count}", process::id()));
        self.disk.rename(path, &unfinished)?;
        self.disk.remove(&unfinished)
    }

    /// Removes checkpoints older than that of `step`, unless they are to be kept. Checkpoints that
    /// are not whole do not count; their tensors are not read to find that out.
    fn prune(&self, step: u64) -> Result<()> {
        let mut counted = 1;
        let named = *self.named.lock().unwrap_or_else(PoisonError::into_inner);
        for Candidate { step: older, path, .. } in self.candidates()? {
            let kept =
                self.every.is_some_and(|every| older.is_multiple_of(every)) || named == Some(older);
            if older >= step {
                continue;
            } else if counted < self.last {
                counted += usize::from(Checkpoint::look(&path).is_ok());
            } else if !kept {
                self.tolerate(&path, self.discard(&path));
            }
        }
        Ok(())
    }
}
