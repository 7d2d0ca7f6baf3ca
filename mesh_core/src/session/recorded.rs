//! The recorded times of a call's steps.

use super::{Result, Session};
use crate::exec::CallTimes;
use crate::program::Program;

/// The times of one processor in the last call.
#[derive(Clone, Debug)]
pub struct Recorded<'s> {
    /// The program that was run: its steps are those that the times are of.
    pub program: &'s Program,
    /// When each step ran.
    pub times: CallTimes,
}

impl Session {
    /// Whether to note, in every call, when each step began and ended on each processor. Off at
    /// first. Costs two looks at the clock a step, and memory for the times, which is allocated
    /// here.
    ///
    /// # Errors
    ///
    /// If the back-end does not record times.
    pub fn record(&mut self, on: bool) -> Result<()> {
        Ok(self.backend.record(on)?)
    }

    /// A processor's times in the last call. `None` if they were not recorded, or if the mesh has
    /// no such processor. After a failed call they end where it stopped.
    pub fn recorded(&self, processor: usize) -> Option<Recorded<'_>> {
        let (program, times) = self.backend.recorded(processor)?;
        Some(Recorded { program, times })
    }
}
