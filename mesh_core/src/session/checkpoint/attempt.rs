//! An attempt to write a checkpoint: all ranks write into one file.
//!
//! Every rank computes the place of each tensor in the file from the table of variables. Rank 0
//! makes a folder with a hidden name and the file in it. Every rank writes its slices to their
//! places, waits until they are on the disk, and leaves a *marker*: its parts of the checksums, or
//! the error it had. Rank 0 waits for the markers, adds the manifest and renames the folder; the
//! other ranks wait for the new name.
//!
//! Ranks communicate through the folder alone. Its hidden name contains the job, the snapshot and
//! the attempt, so that files of an earlier attempt are not taken for files of this one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::header::{self, Place};
use super::manifest::{self, Manifest, hex, signature_of};
use super::stored::{MANIFEST, TENSORS};
use super::tensors::{self, CHUNK, Output, Part};
use super::{CheckpointError, Result, Snapshot, State};

/// The longest sleep before a rank looks into the folder again.
const NAP: Duration = Duration::from_millis(20);

/// How much longer than rank 0 the other ranks wait at most. So it is rank 0 that reports a missing
/// rank.
const LONGER: Duration = Duration::from_secs(2);

/// One rank's part in writing a checkpoint; a single process is rank 0 of one.
pub(super) struct Attempt<'a> {
    disk: &'a Disk,
    folder: PathBuf,
    snapshot: &'a Snapshot,
    /// The variables' indices in the order of the file, and their places in it.
    order: Vec<usize>,
    places: Vec<Place>,
    head: Vec<u8>,
}

/// What a rank tells the others.
#[derive(Serialize, Deserialize)]
enum Marker {
    /// The part of each tensor that it wrote, in the order of the file.
    Wrote(Vec<Part>),
    Failed {
        rank: usize,
        problem: String,
    },
}

impl<'a> Attempt<'a> {
    /// An attempt in `folder`, a name that no earlier attempt has had. Nothing is written yet.
    pub(super) fn new(disk: &'a Disk, folder: PathBuf, snapshot: &'a Snapshot) -> Result<Self> {
        let specs = snapshot.tensors.iter().map(|tensor| &tensor.spec);
        let (order, places) = header::arrange(specs)?;
        let head = header::write(&places);
        let head = head.map_err(|problem| unwritable(&folder.join(TENSORS), problem))?;
        Ok(Self { disk, folder, snapshot, order, places, head })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn tensors(&self) -> PathBuf {
        self.folder.join(TENSORS)
    }

    fn marker(&self, rank: usize) -> PathBuf {
        self.folder.join(format!("rank-{rank}"))
    }

    fn file_bytes(&self) -> u64 {
        (self.head.len() + header::data_bytes(&self.places)) as u64
    }

    /// Rank 0's part. When it returns, the folder is a complete checkpoint on the disk that lacks
    /// only its name.
    pub(super) fn lead(
        &self,
        before: impl FnOnce() -> Result<()>,
        step: u64,
        state: &State,
    ) -> Result<()> {
        self.disk.create_folder(&self.folder)?;
        let path = self.tensors();
        let file = self.disk.create(&path)?;
        self.disk.write_at(&file, &path, 0, &self.head)?;
        self.disk.set_length(&file, &path, self.file_bytes())?;
        before()?;
        let parts = self.write(&file)?;
        let sums = self.checksums(parts)?;
        self.describe(&sums, step, state)?;
        self.disk.sync_folder(&self.folder)
    }

    /// The part of any other rank. It returns when the checkpoint has its name, `path`.
    pub(super) fn follow(&self, before: impl FnOnce() -> Result<()>, path: &Path) -> Result<()> {
        let file = self.join()?;
        match before().and_then(|()| self.write(&file)) {
            Ok(parts) => match self.leave(&Marker::Wrote(parts)) {
                Err(error) if self.folder.exists() => Err(error),
                _ => self.committed(&file, path),
            },
            Err(error) => {
                // If this fails, too, rank 0 waits until its deadline.
                let _ = self.leave(&self.failed(&error));
                Err(error)
            }
        }
    }

    /// Cleans up after rank 0 has failed: removes everything but the marker that tells other ranks
    /// why. The next save removes what cannot be removed now.
    pub(super) fn abandon(&self, error: &CheckpointError) {
        let _ = self.disk.remove(&self.tensors());
        let told = self.snapshot.processes.ranks > 1
            && self.disk.create_folder(&self.folder).is_ok()
            && self.leave(&self.failed(error)).is_ok();
        if !told {
            let _ = self.disk.remove(&self.folder);
        }
    }

    /// Writes this rank's slices and waits until they are on the disk.
    fn write(&self, file: &File) -> Result<Vec<Part>> {
        let (path, mut buffer) = (self.tensors(), vec![0; CHUNK]);
        let output = Output { disk: self.disk, file, path: &path, data: self.head.len() };
        let tensors = self.order.iter().zip(&self.places);
        let parts = tensors.map(|(&index, place)| {
            tensors::write(&output, place, &self.snapshot.tensors[index], &mut buffer)
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        self.disk.sync(file, &path)?;
        Ok(parts)
    }

    /// Adds the other ranks' parts of the checksums to `parts`, those of rank 0, and removes their
    /// markers.
    fn checksums(&self, mut parts: Vec<Part>) -> Result<Vec<u32>> {
        for rank in 1..self.snapshot.processes.ranks {
            let others =
                self.wait((rank, "its part is not there"), self.deadline(), || {
                    match self.read(rank)? {
                        Marker::Wrote(others) => Some(Ok(others)),
                        Marker::Failed { rank, problem } => {
                            Some(Err(CheckpointError::Rank { rank, problem }))
                        }
                    }
                })?;
            if others.len() != parts.len() {
                let problem = format!("it has {} variables of {}", others.len(), parts.len());
                return Err(CheckpointError::Rank { rank, problem });
            }
            parts.iter_mut().zip(&others).for_each(|(part, other)| part.add(other));
            self.disk.remove(&self.marker(rank))?;
        }
        let checksum = |(part, place): (&Part, &Place)| {
            part.whole(place.bytes).ok_or_else(|| {
                let (name, problem) = (place.name.clone(), "a part of it is not here".to_owned());
                CheckpointError::Variable { name, problem }
            })
        };
        parts.iter().zip(&self.places).map(checksum).collect()
    }

    /// Writes the manifest.
    fn describe(&self, sums: &[u32], step: u64, state: &State) -> Result<()> {
        let specs = || self.order.iter().map(|&index| &self.snapshot.tensors[index].spec);
        let entries = specs().zip(sums);
        let entries = entries.map(|(spec, sum)| (spec.name.clone(), manifest::entry(spec, *sum)));
        let entries: BTreeMap<_, _> = entries.collect();
        let header_crc32c = hex(crc32c::crc32c(&self.head));
        let file = manifest::File { bytes: self.file_bytes(), header_crc32c };
        let (step, tensors) = ((step, self.snapshot.seed), (signature_of(specs()), entries));
        let path = self.folder.join(MANIFEST);
        let text = Manifest::new(step, file, tensors, state).text();
        let text = text.map_err(|problem| unwritable(&path, problem))?;
        let file = self.disk.create(&path)?;
        self.disk.write_at(&file, &path, 0, text.as_bytes())?;
        self.disk.sync(&file, &path)
    }

    /// Opens the file that rank 0 makes, once it is there.
    fn join(&self) -> Result<File> {
        let path = self.tensors();
        self.wait((0, "it has not begun the checkpoint"), self.deadline(), || match File::options()
            .write(true)
            .open(&path)
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.refused(),
            opened => Some(opened.map_err(|source| CheckpointError::Io {
                action: "open",
                path: path.clone(),
                source,
            })),
        })
    }

    /// Waits until the written file lies in a folder with the checkpoint's name.
    fn committed(&self, file: &File, path: &Path) -> Result<()> {
        let path = path.join(TENSORS);
        let patience = self.deadline().saturating_add(self.deadline().min(LONGER));
        self.wait((0, "the checkpoint has not got its name"), patience, || {
            let there = self.folder.exists();
            if self.disk.is_at(file, &path) {
                return Some(Ok(()));
            }
            let problem = "it gave the checkpoint up".to_owned();
            let gone = (!there).then_some(Err(CheckpointError::Rank { rank: 0, problem }));
            self.refused().or(gone)
        })
    }

    /// Rank 0's error, if rank 0 has given up.
    fn refused<T>(&self) -> Option<Result<T>> {
        match self.read(0)? {
            Marker::Failed { rank, problem } => Some(Err(CheckpointError::Rank { rank, problem })),
            Marker::Wrote(_) => None,
        }
    }

    /// The marker of a rank, if it is there.
    fn read(&self, rank: usize) -> Option<Marker> {
        serde_json::from_slice(&fs::read(self.marker(rank)).ok()?).ok()
    }

    /// Writes this rank's marker to another name and renames it, so that a marker is always whole.
    fn leave(&self, marker: &Marker) -> Result<()> {
        let path = self.marker(self.snapshot.processes.rank);
        let unfinished = path.with_extension("new");
        let text = serde_json::to_vec(marker);
        let text = text.map_err(|error| unwritable(&path, error.to_string()))?;
        let file = self.disk.create(&unfinished)?;
        self.disk.write_at(&file, &unfinished, 0, &text)?;
        self.disk.rename(&unfinished, &path)
    }

    fn failed(&self, error: &CheckpointError) -> Marker {
        match error {
            CheckpointError::Rank { rank, problem } => {
                Marker::Failed { rank: *rank, problem: problem.clone() }
            }
            error => {
                Marker::Failed { rank: self.snapshot.processes.rank, problem: error.to_string() }
            }
        }
    }

    fn deadline(&self) -> Duration {
        self.snapshot.processes.deadline
    }

    /// Looks into the folder again and again for what a rank waits for, until no rank has written
    /// anything for so long.
    fn wait<T>(
        &self,
        (rank, missing): (usize, &str),
        patience: Duration,
        look: impl Fn() -> Option<Result<T>>,
    ) -> Result<T> {
        let (mut since, mut changed, mut expired) = (Instant::now(), self.changed(), false);
        loop {
            if let Some(found) = look() {
                return found;
            }
            if expired {
                let seconds = patience.as_secs_f64();
                let problem = format!("{missing} after {seconds} s in which nothing was written");
                return Err(CheckpointError::Rank { rank, problem });
            }
            let now = self.changed();
            if now != changed {
                (since, changed) = (Instant::now(), now);
            }
            let waited = since.elapsed();
            // Looks once more after the deadline, as this process may have been suspended
            // meanwhile.
            expired = waited >= patience;
            thread::sleep((waited / 16).clamp(Duration::from_millis(1), NAP));
        }
    }

    /// The last time at which any rank wrote a part of a tensor.
    fn changed(&self) -> Option<SystemTime> {
        fs::metadata(self.tensors()).and_then(|file| file.modified()).ok()
    }
}

fn unwritable(path: &Path, problem: String) -> CheckpointError {
    let (path, source) = (path.to_owned(), io::Error::other(problem));
    CheckpointError::Io { action: "write", path, source }
}
