//! Several sessions on the same variables.

use std::cell::Cell;
use std::sync::Arc;

use super::{Result, Session, write_to_stderr};

impl Session {
    /// Another session that has the same variables, in the same memory, so that another thread calls
    /// functions at the same time. Processors, and memory for all else, are its own; so are the seed (at
    /// first this one's), the watcher of probes and what is recorded.
    ///
    /// While several sessions have the variables none of them writes any: training, [`write`](Self::write)
    /// and restoring are refused until the others are dropped.
    ///
    /// ```
    /// # use mesh_core::{array::Array, graph::Function, session::{Error, Session}};
    /// # use std::thread;
    /// # fn doc(session: &Session, predict: &Function<1, 1>, batches: &[Array]) -> Result<(), Error> {
    /// let mut others = [session.share()?, session.share()?];
    /// thread::scope(|scope| {
    ///     for (session, batch) in others.iter_mut().zip(batches) {
    ///         scope.spawn(|| session.call(predict, [batch.view()]));
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If this machine lacks memory or threads for more processors, or the back-end does not share its
    /// variables: only [`threads`](Self::threads) does.
    pub fn share(&self) -> Result<Self> {
        Ok(Self {
            graph: self.graph,
            mesh: self.mesh.clone(),
            backend: self.backend.share()?,
            programs: Arc::clone(&self.programs),
            addressable: Arc::clone(&self.addressable),
            functions: Arc::clone(&self.functions),
            variables: Arc::clone(&self.variables),
            replica_check: self.replica_check,
            watcher: Box::new(write_to_stderr),
            shown: vec![Vec::new(); self.programs.len()],
            snapshots: Cell::default(),
        })
    }

    /// Sets the seed that random numbers of later calls follow from. Variables stay as they are.
    pub fn set_seed(&mut self, seed: u64) {
        self.backend.set_seed(seed);
    }
}
