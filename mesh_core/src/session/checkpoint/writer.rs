//! Saving beside training.

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::{CheckpointError, Checkpoints, Result, Snapshot, State};
use crate::session::Session;

/// A thread that saves checkpoints, one at a time. Training waits for the copy of its variables,
/// and for the save before, should that still be under way. Of several processes that run one module
/// each has one, and all save at the same steps.
///
/// Dropping it waits for the save under way; [`finish`](Self::finish) does so and says how it went.
#[derive(Debug)]
pub struct Writer {
    /// `None` once it is to end.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    /// The memory of snapshots; with the thread while it saves.
    spare: Option<Snapshot>,
    saved: Option<PathBuf>,
}

#[derive(Debug)]
struct Job {
    step: u64,
    snapshot: Snapshot,
    state: State,
    /// What the state tells of.
    files: Vec<(PathBuf, File)>,
}

#[derive(Debug)]
struct Done {
    snapshot: Snapshot,
    result: Result<PathBuf>,
}

impl Writer {
    /// A thread that saves to `checkpoints`.
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

    /// Copies a session's variables and has them saved. The error may be that of the save before;
    /// then this one was not begun.
    pub fn save(&mut self, session: &Session, step: u64, state: State) -> Result<()> {
        self.save_after(Vec::new(), session, step, state)
    }

    /// As [`save`](Self::save), once these files are on the disk: what the state tells of them, such
    /// as their lengths, then holds whenever the checkpoint is there.
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

    /// Waits for the save under way, if there is one; gives the folder saved last.
    pub fn wait(&mut self) -> Result<Option<PathBuf>> {
        if self.spare.is_none() {
            let Done { snapshot, result } = self.done.recv().map_err(|_| ended())?;
            self.spare = Some(snapshot);
            self.saved = Some(result?);
        }
        Ok(self.saved.clone())
    }

    /// Waits for the save under way and ends the thread; gives the folder saved last.
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
            // If it panicked, whoever waits for it is told.
            let _ = thread.join();
        }
    }
}
