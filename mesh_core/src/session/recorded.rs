//! The recorded times of a call's steps.

use super::Session;
use crate::exec::CallTimes;
use crate::program::{Compiled, Program};

/// The times of one processor in the last call.
#[derive(Clone, Debug)]
pub struct Recorded<'s> {
    /// The program that was run: its steps are those that the times are of.
    pub program: &'s Program,
    /// When each step ran.
    pub times: CallTimes,
}

impl Session {
    /// Switches recording on or off. In every call it notes when each step began and ended on each
    /// processor. It is off at first. It costs two readings of the clock per step, and memory,
    /// which is allocated here.
    pub fn record(&mut self, on: bool) {
        self.machine.record(on);
    }

    /// A processor's times in the last call. `None` if they were not recorded, or if the mesh has
    /// no such processor. After a failed call they end where it stopped.
    pub fn recorded(&self, processor: usize) -> Option<Recorded<'_>> {
        let (Compiled { program, .. }, times) = self.machine.recorded(processor)?;
        Some(Recorded { program, times })
    }
}
