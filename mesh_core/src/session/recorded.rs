//! When each step of a call ran.

use super::{Result, Session};
use crate::exec::CallTimes;
use crate::program::Program;

/// What one processor did in the last call.
#[derive(Clone, Debug)]
pub struct Recorded<'s> {
    /// What was run: the steps that the times are of, and where they come from.
    pub program: &'s Program,
    /// When.
    pub times: CallTimes,
}

impl Session {
    /// Whether to note, in every call, when each step began and ended on each processor. Off at
    /// first. Costs two looks at the clock a step, and memory for the times, which is allocated
    /// here.
    ///
    /// # Errors
    /// A back-end that cannot say when its steps run.
    pub fn record(&mut self, on: bool) -> Result<()> {
        Ok(self.backend.record(on)?)
    }

    /// What a processor did in the last call; `None` if that was not recorded, or for a processor
    /// that the mesh does not have. Of a call that failed: as far as it got.
    pub fn recorded(&self, processor: usize) -> Option<Recorded<'_>> {
        let (program, times) = self.backend.recorded(processor)?;
        Some(Recorded { program, times })
    }
}
