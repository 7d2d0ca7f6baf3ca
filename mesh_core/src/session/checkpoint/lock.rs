//! The lock of a folder of checkpoints: one process at a time saves to it.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{CheckpointError, Result};

/// The file in the folder that a saving process locks. It contains the process's name and stays
/// when the lock is released.
pub(super) const LOCK: &str = ".lock";

/// How long to wait for a locked file: a process that was killed keeps its lock until the system
/// has freed its memory.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest lock file that is read, in bytes.
const LONGEST: u64 = 1000;

/// A process's reservation of a folder of checkpoints.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// The locked file, open while the reservation holds. The system closes it when the process
    /// ends.
    lock: Option<File>,
    /// Problems that prevented no save and were not returned yet.
    problems: Vec<CheckpointError>,
    /// The paths whose problems have been noted.
    told: BTreeSet<PathBuf>,
}

impl Claim {
    /// Locks a folder that exists, unless this claim has locked it already. Fails if another
    /// process has it.
    pub(super) fn take(&mut self, folder: &Path) -> Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = folder.join(LOCK);
        let error = |action, source| CheckpointError::Io { action, path: path.clone(), source };
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(|source| error("open", source))?;
        let begun = Instant::now();
        while let Err(refused) = file.try_lock() {
            match refused {
                TryLockError::WouldBlock if begun.elapsed() < PATIENCE => {
                    thread::sleep(PATIENCE / 40);
                }
                TryLockError::WouldBlock => {
                    let (folder, by) = (folder.to_owned(), holder(&file));
                    return Err(CheckpointError::Locked { folder, by });
                }
                // Some file systems have no locks. Training may go on without one.
                TryLockError::Error(source) => {
                    self.note(&path, error("lock", source));
                    break;
                }
            }
        }
        // The file's text is for people; the lock holds without it.
        let _ = sign(&mut file);
        self.lock = Some(file);
        Ok(())
    }

    /// Notes the first problem with each path.
    pub(super) fn note(&mut self, with: &Path, problem: CheckpointError) {
        if self.told.insert(with.to_owned()) {
            self.problems.push(problem);
        }
    }

    /// Takes the problems that were not returned yet.
    pub(super) fn problems(&mut self) -> Vec<CheckpointError> {
        std::mem::take(&mut self.problems)
    }
}

/// Writes this process's name into the lock file.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let on = if host.trim().is_empty() { "" } else { " on " };
    write!(file, "process {}{on}{}", std::process::id(), host.trim())
}

/// The name of the process that has the lock, as far as the file has it.
fn holder(file: &File) -> String {
    let mut text = Vec::new();
    let read = file.take(LONGEST).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    match read {
        Ok(_) if text.starts_with("process ") => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}
