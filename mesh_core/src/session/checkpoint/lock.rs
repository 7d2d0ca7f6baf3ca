//! One process at a time saves to a folder.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{CheckpointError, Result};

/// The file in a folder of checkpoints that is locked by who saves there. It says who that is, and
/// stays when nobody does.
pub(super) const LOCK: &str = ".lock";

/// How long to wait for a process that has the lock: one that was killed has it until the system has
/// taken its memory back.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest text of a lock that is looked at, in bytes.
const LONGEST: u64 = 1000;

/// What a process has to do with a folder of checkpoints.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// Open while the folder is this process's. The system closes it when the process ends, however
    /// that does.
    lock: Option<File>,
    /// What went wrong without doing harm, and was not told yet.
    problems: Vec<CheckpointError>,
    /// With what it was that something did.
    told: BTreeSet<PathBuf>,
}

impl Claim {
    /// Takes a folder, which is there, unless it is taken already. Refused if another process has it.
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
                // Some file systems have no locks. That is no reason not to train.
                TryLockError::Error(source) => {
                    self.note(&path, error("lock", source));
                    break;
                }
            }
        }
        // For people: the lock holds without it.
        let _ = sign(&mut file);
        self.lock = Some(file);
        Ok(())
    }

    /// Remembers what went wrong with something, the first time that something does.
    pub(super) fn note(&mut self, with: &Path, problem: CheckpointError) {
        if self.told.insert(with.to_owned()) {
            self.problems.push(problem);
        }
    }

    /// What went wrong and was not told yet.
    pub(super) fn problems(&mut self) -> Vec<CheckpointError> {
        std::mem::take(&mut self.problems)
    }
}

/// Says who has the lock.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let on = if host.trim().is_empty() { "" } else { " on " };
    write!(file, "process {}{on}{}", std::process::id(), host.trim())
}

/// Who has the lock, as far as that was said.
fn holder(file: &File) -> String {
    let mut text = Vec::new();
    let read = file.take(LONGEST).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    match read {
        Ok(_) if text.starts_with("process ") => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}
