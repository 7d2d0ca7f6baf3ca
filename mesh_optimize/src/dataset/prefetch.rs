//! Records that a second thread makes ahead.

use super::unmade::Unmades;
use super::{DatasetError, Record, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

/// The most records that are made ahead; the channel allocates room for as many when it is made.
pub(super) const MOST: usize = 1 << 16;

/// The receiving end of a prefetching thread. Dropping it ends the thread.
pub(super) struct Prefetched {
    receiver: Option<Receiver<Result<Record>>>,
    thread: Option<JoinHandle<()>>,
    /// Why the thread could not be started.
    failed: Option<String>,
}

impl Prefetched {
    /// Starts a thread that makes records, up to `depth` ahead, until the first error.
    pub(super) fn start(depth: usize, unmade: Unmades) -> Self {
        let (sender, receiver) = sync_channel(depth);
        let work = move || {
            for record in unmade {
                let record = record.make().map(Arc::unwrap_or_clone);
                let last = record.is_err();
                // Sending fails once the receiver is dropped.
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
        // The thread has ended. If it panicked, records are missing.
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
            // A panic of the thread has been reported by now, or the records were dropped before.
            let _ = thread.join();
        }
    }
}
