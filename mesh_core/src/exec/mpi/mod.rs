//! A mesh whose processors are shared among the ranks of an MPI job, which run them on threads.
//!
//! Every rank runs the same program and calls the same methods of its machine in the same order.
//! Processors of one rank meet as threads do; others by messages, in communicators for the axes along which
//! they meet.
//! Nothing waits for ever: after a deadline, or any other failure, the rank says what it was doing
//! and ends the job.
#![allow(unsafe_code, reason = "calls MPI, and reaches into the processors' memory")]

mod backend;
mod channel;
mod comm;
mod communicator;
mod deliver;
mod last;
mod messages;
mod patience;
mod same;
mod staging;
mod start;
mod wire;
mod world;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use self::backend::RankBackend;
use crate::passes::Target;

/// How long a rank waits for others unless a session says otherwise.
const DEADLINE: Duration = Duration::from_secs(300);

/// How ranks work together.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Ranks {
    /// How long a rank waits for others before it ends the job: more than the longest that one of
    /// them may be busy with something else, as reading data or saving.
    pub deadline: Duration,
    /// A folder where each rank keeps what it did last, if it is to be known of one that is killed:
    /// the next session that is started with it tells.
    pub last_step: Option<PathBuf>,
    /// How many ranks the launcher says it has started. That MPI knows of another number means that
    /// the two do not know each other, and is an error.
    pub started: Option<usize>,
    /// Whether each processor has a second thread, which carries out collectives beside computation
    /// that does not need them. Unless it is said, there are where each has a core. Results are the
    /// same.
    pub couriers: Option<bool>,
    /// What modules are compiled for.
    pub target: Target,
}

impl Default for Ranks {
    fn default() -> Self {
        let target = Target::host();
        Self { deadline: DEADLINE, last_step: None, started: None, couriers: None, target }
    }
}

impl Ranks {
    /// With another deadline.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// If so many ranks were started.
    pub fn started(mut self, ranks: usize) -> Self {
        self.started = Some(ranks);
        self
    }

    /// With couriers, or without.
    pub fn couriers(mut self, couriers: bool) -> Self {
        self.couriers = Some(couriers);
        self
    }

    /// Compiled for another target.
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// With files of what each rank did last.
    pub fn last_step(mut self, folder: impl Into<PathBuf>) -> Self {
        self.last_step = Some(folder.into());
        self
    }
}
