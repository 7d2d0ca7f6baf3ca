//! Records made ahead, by another thread.

use super::unmade::Unmades;
use super::{DatasetError, Record, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

/// The most records that are made ahead: the channel has room for them from the beginning.
pub(super) const MOST: usize = 1 << 16;

/// Receives what a thread makes. Dropped, it ends the thread.
pub(super) struct Prefetched {
    receiver: Option<Receiver<Result<Record>>>,
    thread: Option<JoinHandle<()>>,
    /// Why there is no thread.
    failed: Option<String>,
}

impl Prefetched {
    /// Lets a thread work up to `depth` records ahead, up to the first error.
    pub(super) fn start(depth: usize, unmade: Unmades) -> Self {
        let (sender, receiver) = sync_channel(depth);
        let work = move || {
            for record in unmade {
                let record = record.make().map(Arc::unwrap_or_clone);
                let last = record.is_err();
                // Sending fails if nobody listens any more.
                if sender.send(record).is_err() || last {
                    break;
                }
            }
        };
        match Builder::new().name("prefetch".to_owned()).spawn(work) {
            Ok(thread) => Self { receiver: Some(receiver), thread: Some(thread), failed: None },
            Err(error) => Self { receiver: None, thread: None, failed: Some(error.to_string()) },
        }
    }
}

impl Iterator for Prefetched {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(reason) = self.failed.take() {
            return Some(Err(DatasetError::Stopped(reason)));
        }
        if let Ok(record) = self.receiver.as_ref()?.recv() {
            return Some(record);
        }
        self.receiver = None;
        // The thread is done; if it panicked, records are missing.
        match self.thread.take()?.join() {
            Ok(()) => None,
            Err(_) => Some(Err(DatasetError::Stopped("it panicked".to_owned()))),
        }
    }
}

impl Drop for Prefetched {
    fn drop(&mut self) {
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was reported, or nobody asked.
            let _ = thread.join();
        }
    }
}
