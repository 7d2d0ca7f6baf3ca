//! A folder of checkpoints: saving, finding, thinning out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::Disk;
use super::header::{self, Place};
use super::manifest::{Entry, File, Manifest, hex, signature};
use super::stored::{MANIFEST, TENSORS};
use super::tensors::{self, CHUNK};
use super::{Checkpoint, CheckpointError, Result, Snapshot, State};
use crate::lower::VariableSpec;

/// How many checkpoints are kept unless [`Checkpoints::keep_last`] says otherwise.
const KEPT: usize = 3;

/// What the name of a checkpoint ends in while a new one of the same step takes its place.
const REPLACED: &str = ".replaced";

/// A folder of checkpoints, one folder per step, and which of them are kept. One process at a time
/// saves to it.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    last: usize,
    every: Option<u64>,
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
        Self { folder: folder.into(), last: KEPT, every: None, disk: Disk::default() }
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

    /// Saves a checkpoint and gives its folder. It is there whole when this returns, and was not
    /// there before; one of the same step is replaced. Then removes those that are not to be kept.
    /// Of several processes that run one module, all take the snapshot, and rank 0 alone writes: to
    /// the others this is nothing, and comes back at once.
    pub fn save(&self, step: u64, snapshot: &Snapshot, state: &State) -> Result<PathBuf> {
        let path = self.path(step);
        if snapshot.rank > 0 {
            return Ok(path);
        }
        self.disk.create_folder(&self.folder)?;
        self.remove_unfinished()?;
        let unfinished = self.unfinished(&path);
        let written = self.write(&unfinished, step, snapshot, state);
        if let Err(error) = written.and_then(|()| self.commit(&unfinished, &path)) {
            // The first error is the one to tell; what is left over is removed by the next save.
            let _ = self.disk.remove(&unfinished);
            return Err(error);
        }
        self.prune(step)?;
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

    /// A name of this process's own for what is to be, or was, at `path`.
    fn unfinished(&self, path: &Path) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.folder.join(format!(".{name}.tmp-{}-{count}", process::id()))
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

    /// Removes what killed writers left.
    fn remove_unfinished(&self) -> Result<()> {
        let left = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(".step-") && name.contains(".tmp-"))
        };
        self.entries()?.iter().filter(|path| left(path)).try_for_each(|path| self.disk.remove(path))
    }

    /// Writes both files and brings them to the disk.
    fn write(&self, folder: &Path, step: u64, snapshot: &Snapshot, state: &State) -> Result<()> {
        let specs = || snapshot.tensors.iter().map(|tensor| &tensor.spec);
        let (order, places) = header::arrange(specs())?;
        self.disk.create_folder(folder)?;
        let (file, sums) = self.write_tensors(&folder.join(TENSORS), snapshot, &order, &places)?;
        let tensors = order.iter().zip(sums).map(|(&index, sum)| {
            let spec = &snapshot.tensors[index].spec;
            (spec.name.clone(), entry(spec, sum))
        });
        let signature = signature_of(specs());
        let tensors: BTreeMap<_, _> = tensors.collect();
        let manifest = Manifest::new((step, snapshot.seed), file, (signature, tensors), state);
        let path = folder.join(MANIFEST);
        let text = manifest.text().map_err(|problem| unwritable(&path, problem))?;
        let file = self.disk.create(&path)?;
        self.disk.write(&file, &path, text.as_bytes())?;
        self.disk.sync(&file, &path)?;
        self.disk.sync_folder(folder)
    }

    /// Writes the tensors; gives a checksum of each, in the order of `places`.
    fn write_tensors(
        &self,
        path: &Path,
        snapshot: &Snapshot,
        order: &[usize],
        places: &[Place],
    ) -> Result<(File, Vec<u32>)> {
        let head = header::write(places);
        let head = head.map_err(|problem| unwritable(path, problem))?;
        let file = self.disk.create(path)?;
        self.disk.write(&file, path, &head)?;
        let mut buffer = vec![0; CHUNK];
        let mut sums = Vec::new();
        for (&index, place) in order.iter().zip(places) {
            let what = (place, &snapshot.tensors[index]);
            let sum = tensors::write((&self.disk, path), &file, head.len(), what, &mut buffer)?;
            sums.push(sum);
        }
        self.disk.sync(&file, path)?;
        let bytes = (head.len() + header::data_bytes(places)) as u64;
        Ok((File { bytes, header_crc32c: hex(crc32c::crc32c(&head)) }, sums))
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
        self.discard(&replaced)
    }

    /// Removes a checkpoint; killed meanwhile, it leaves no part under the name of a whole one.
    fn discard(&self, path: &Path) -> Result<()> {
        if fs::symlink_metadata(path).is_err() {
            return Ok(());
        }
        let unfinished = self.unfinished(path);
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
                self.discard(&path)?;
            }
        }
        Ok(())
    }
}

fn unwritable(path: &Path, problem: String) -> CheckpointError {
    let (path, source) = (path.to_owned(), io::Error::other(problem));
    CheckpointError::Io { action: "write", path, source }
}

/// What the manifest says of a variable.
fn entry(spec: &VariableSpec, sum: u32) -> Entry {
    let dims = spec.shape.names().map(|name| name.to_string()).collect();
    Entry { dims, trainable: spec.trainable, crc32c: hex(sum) }
}

/// The signature of a table of variables.
pub(super) fn signature_of<'v>(variables: impl Iterator<Item = &'v VariableSpec>) -> String {
    signature(variables.map(|v| (&v.name, v.dtype, v.shape.sizes(), v.trainable)))
}
