//! Where a session's processors are.

use super::Session;
use crate::names::ProcessMap;

impl Session {
    /// Which processor of the mesh runs in which process: on [`threads`](Self::threads) all in one.
    pub fn processes(&self) -> &ProcessMap {
        self.machine.map()
    }

    /// Which of the processes that run the module this is: 0 on threads, where there is one.
    pub fn rank(&self) -> usize {
        self.machine.processes().rank
    }

    /// Whether something is so in any of the processes that run the module, which all ask. What one
    /// alone knows, such as that it was told to end, cannot decide otherwise what the next call is.
    pub fn any(&self, here: bool) -> bool {
        self.machine.any(here)
    }
}
