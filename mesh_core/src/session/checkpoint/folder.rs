//! A folder of checkpoints: saving, finding, thinning out.

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

/// How many checkpoints are kept unless [`Checkpoints::keep_last`] says otherwise.
const KEPT: usize = 3;

/// What the name of a checkpoint ends in while a new one of the same step takes its place.
const REPLACED: &str = ".replaced";

/// A folder of checkpoints, one folder per step, and which of them are kept. One process at a time
/// saves to it, or the ranks of one job together: see [`lock`](Self::lock).
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    last: usize,
    every: Option<u64>,
    /// Shared with clones.
    claim: Arc<Mutex<Claim>>,
    pub(super) disk: Disk,
}

/// What [`Checkpoints::latest`] found.
#[derive(Debug)]
pub struct Latest {
    /// The newest whole checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Those that are newer and are not whole, the newest first. A caller should tell of them.
    pub refused: Vec<Refused>,
}

/// What has the name of a checkpoint and is none.
#[derive(Debug)]
pub struct Refused {
    /// Its folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: CheckpointError,
}

/// A folder by its name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    step: u64,
    /// Whether it is the one that was not replaced.
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
    /// The checkpoints in a folder, which is made when the first is saved.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let (claim, disk) = (Arc::default(), Disk::default());
        Self { folder: folder.into(), last: KEPT, every: None, claim, disk }
    }

    /// Keeps so many of the newest checkpoints; 3, unless this says otherwise, and never none.
    pub fn keep_last(mut self, count: usize) -> Self {
        self.last = count.max(1);
        self
    }

    /// Keeps, beside the newest, every checkpoint whose step is a multiple of `steps`. 0 keeps no
    /// others, as at first.
    pub fn keep_every(mut self, steps: u64) -> Self {
        self.every = (steps > 0).then_some(steps);
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps other processes from saving to the folder, which is made if need be, until this value and
    /// its clones are dropped or the process ends, however it does. Another process that saves there is
    /// an error that names it. [`save`](Self::save) does this as well; who is to find out before there
    /// is something to save, does it first. Of several processes that run one module, rank 0 does it.
    ///
    /// Where the file system has no locks, [`problems`](Self::problems) tells.
    pub fn lock(&self) -> Result<()> {
        self.disk.create_folder(&self.folder)?;
        self.claim().take(&self.folder)
    }

    /// What went wrong without keeping anything from being saved, since this was asked last: what an
    /// earlier run left, or is not to be kept, and cannot be removed. Each is told once.
    pub fn problems(&self) -> Vec<CheckpointError> {
        self.claim().problems()
    }

    fn claim(&self) -> MutexGuard<'_, Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells later of what cannot be done with something, and may be left as it is.
    fn tolerate(&self, with: &Path, done: Result<()>) {
        if let Err(problem) = done {
            self.claim().note(with, problem);
        }
    }

    /// Saves a checkpoint and gives its folder. It is there whole when this returns, and was not
    /// there before; one of the same step is replaced. Then removes those that are not to be kept.
    ///
    /// Of several processes that run one module, all save at the same step what they have of the
    /// snapshot that they took together, in a folder that all see: each writes its slices, rank 0
    /// commits. Where one fails, or does nothing for longer than the deadline, there is no checkpoint
    /// and all get an error.
    pub fn save(&self, step: u64, snapshot: &Snapshot, state: &State) -> Result<PathBuf> {
        self.save_after(|| Ok(()), step, snapshot, state)
    }

    /// As [`save`](Self::save), once something is done that the checkpoint is not to be there
    /// without.
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

    /// The newest checkpoint that is whole. If there is none, it has none; what is not whole is
    /// told. A folder that is not there has none.
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

    fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("step-{step:010}"))
    }

    /// A name for what is to be, or was, at `path`.
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

    /// What has the name of a checkpoint, the newest first.
    fn candidates(&self) -> Result<Vec<Candidate>> {
        let mut found: Vec<_> = self.entries()?.into_iter().filter_map(Candidate::new).collect();
        found.sort_by(|a, b| b.cmp(a));
        Ok(found)
    }

    /// Removes what killed writers left, as far as it can be removed.
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

    /// Gives what was written its name. If another has that, there is at all times one of the two
    /// under a name that [`latest`](Self::latest) knows.
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

    /// Removes a checkpoint; killed meanwhile, it leaves no part under the name of a whole one.
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

    /// Removes checkpoints older than that of `step`, but for those to be kept. Those that are not
    /// whole, as far as can be seen without reading their tensors, do not count.
    fn prune(&self, step: u64) -> Result<()> {
        let mut counted = 1;
        for Candidate { step: older, path, .. } in self.candidates()? {
            let kept = self.every.is_some_and(|every| older.is_multiple_of(every));
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
