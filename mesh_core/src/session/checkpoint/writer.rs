//! Saves checkpoints while training goes on.

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::{CheckpointError, Checkpoints, Result, Snapshot, State};
use crate::session::Session;

/// A thread that saves checkpoints, one at a time. Training waits while its variables are copied,
/// and for the previous save if it is still under way. Where several processes run one module, each
/// has a writer, and all save at the same steps.
///
/// Dropping the writer waits for the save that is under way; [`finish`](Self::finish) also returns
/// its result.
#[derive(Debug)]
pub struct Writer {
    /// `None` when the thread is to end.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    /// The memory for snapshots. The thread has it while it saves.
    spare: Option<Snapshot>,
    saved: Option<PathBuf>,
}

#[derive(Debug)]
struct Job {
    step: u64,
    snapshot: Snapshot,
    state: State,
    /// The files that must be on the disk first.
    files: Vec<(PathBuf, File)>,
}

#[derive(Debug)]
struct Done {
    snapshot: Snapshot,
    result: Result<PathBuf>,
}

impl Writer {
    /// Starts a thread that saves to `checkpoints`.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn new(checkpoints: Checkpoints) -> Result<Self> {
        let (jobs, work) = channel::<Job>();
        let (report, done) = channel();
        let save = move || {
            for Job { step, snapshot, state, files } in work {
                let result = checkpoints.save_after(|| sync(&files), step, &snapshot, &state);
                if report.send(Done { snapshot, result }).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("checkpoints".to_owned()).spawn(save);
        let thread =
            thread.map_err(|error| CheckpointError::Writer { problem: error.to_string() })?;
        let (jobs, thread, spare) = (Some(jobs), Some(thread), Some(Snapshot::default()));
        Ok(Self { jobs, done, thread, spare, saved: None })
    }

    /// Copies a session's variables; the thread saves them.
    ///
    /// # Errors
    ///
    /// If the previous save has failed: then this one is not started. Or if the thread has ended.
    pub fn save(&mut self, session: &Session, step: u64, state: State) -> Result<()> {
        self.save_after(Vec::new(), session, step, state)
    }

    /// [`save`](Self::save) after these files are on the disk. So what `state` says of them, such
    /// as their lengths, is true wherever the checkpoint is.
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save).
    pub fn save_after(
        &mut self,
        files: Vec<(PathBuf, File)>,
        session: &Session,
        step: u64,
        state: State,
    ) -> Result<()> {
        self.wait()?;
        let mut snapshot = self.spare.take().unwrap_or_default();
        session.snapshot_into(&mut snapshot)?;
        let jobs = self.jobs.as_ref().ok_or_else(ended)?;
        jobs.send(Job { step, snapshot, state, files }).map_err(|_| ended())
    }

    /// Waits for the save that is under way, if there is one. Returns the folder that was saved
    /// last.
    ///
    /// # Errors
    ///
    /// If a save has failed, or the thread has ended.
    pub fn wait(&mut self) -> Result<Option<PathBuf>> {
        if self.spare.is_none() {
            let Done { snapshot, result } = self.done.recv().map_err(|_| ended())?;
            self.spare = Some(snapshot);
            self.saved = Some(result?);
        }
        Ok(self.saved.clone())
    }

    /// Waits for the save that is under way and ends the thread. Returns the folder that was saved
    /// last.
    ///
    /// # Errors
    ///
    /// If a save has failed, or the thread panicked.
    pub fn finish(mut self) -> Result<Option<PathBuf>> {
        self.wait()
    }
}

fn sync(files: &[(PathBuf, File)]) -> Result<()> {
    files.iter().try_for_each(|(path, file)| {
        let path = path.clone();
        file.sync_data().map_err(|source| CheckpointError::Io { action: "sync", path, source })
    })
}

fn ended() -> CheckpointError {
    CheckpointError::Writer { problem: "the thread has ended".to_owned() }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the call that waits for a save returns an error.
            let _ = thread.join();
        }
    }
}
