//! Where a session's processors are.

use super::Session;
use crate::names::ProcessMap;

impl Session {
    /// Whether this process runs the processor.
    pub(super) fn is_here(&self, processor: usize) -> bool {
        self.processes().place(processor).0 == self.rank()
    }

    /// Which processor of the mesh runs in which process: on [`threads`](Self::threads) all in one.
    pub fn processes(&self) -> &ProcessMap {
        self.backend.map()
    }

    /// Which of the processes that run the module this is: 0 on threads, where there is one.
    pub fn rank(&self) -> usize {
        self.backend.processes().rank
    }

    /// Whether something is so in any of the processes that run the module, which all ask. What one
    /// alone knows, such as that it was told to end, cannot decide otherwise what the next call is.
    pub fn any(&self, here: bool) -> bool {
        self.backend.any(here)
    }
}
