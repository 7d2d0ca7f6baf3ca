//! The processes of a session.

use super::Session;
use crate::names::ProcessMap;

impl Session {
    /// Whether this process runs the processor.
    pub(super) fn is_here(&self, processor: usize) -> bool {
        self.processes().place(processor).0 == self.rank()
    }

    /// Which process runs which processors of the mesh. On [`threads`](Self::threads) there is one
    /// process.
    pub fn processes(&self) -> &ProcessMap {
        self.backend.map()
    }

    /// The index of this process among those that run the module; 0 on threads.
    pub fn rank(&self) -> usize {
        self.backend.processes().rank
    }

    /// Whether `here` is true in any of the processes that run the module, all of which must call
    /// this. With it all of them decide alike, even if only one knows the reason, such as a request
    /// to stop.
    pub fn any(&self, here: bool) -> bool {
        self.backend.any(here)
    }
}
