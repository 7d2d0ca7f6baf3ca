//! Sessions on the ranks of an MPI job.

pub use crate::exec::Ranks;

use super::{Error, Result, Session};
use crate::exec::{Backend, RankBackend};
use crate::lower::Module;

impl Session {
    /// Makes a session on the ranks of an MPI job and initialises its variables. The mesh's
    /// processors are divided evenly among the ranks; each rank runs its processors on a thread
    /// each. [`processes`](Self::processes) says which rank runs which.
    ///
    /// Every rank makes a session of the same module and seed, and then calls the same methods with
    /// the same arguments in the same order. Before the first step the ranks compare what they are
    /// about to run, kernels included. Each rank takes its slices from global arrays, or is fed
    /// only [what it needs](Self::feeds) of them. Each gets all fetches and variables, so decisions
    /// that depend on them are alike on all ranks. On the same mesh and layout the results have the
    /// bits of [`threads`](Self::threads).
    ///
    /// A rank that fails, or waits for others longer than the deadline, writes that to standard
    /// error and ends the job. So does a process that exits with a status other than 0.
    /// [`Recorded`](super::Recorded) times are those of this rank's processors.
    ///
    /// # Errors
    ///
    /// If the ranks do not divide the processors, the ranks would run different programs, or a
    /// machine lacks threads or memory.
    pub fn mpi(module: &Module, seed: u64) -> Result<Self> {
        Self::mpi_with(module, seed, &Ranks::default())
    }

    /// [`mpi`](Self::mpi) with options.
    ///
    /// # Errors
    ///
    /// As [`mpi`](Self::mpi).
    pub fn mpi_with(module: &Module, seed: u64, ranks: &Ranks) -> Result<Self> {
        Self::on(module, ranks.start(module, seed)?)
    }
}

impl Ranks {
    /// The back-end of a module on this rank, for [`Session::on`].
    ///
    /// # Errors
    /// As [`Session::mpi`].
    pub fn start(&self, module: &Module, seed: u64) -> Result<Box<dyn Backend>> {
        let refused = |problem| Error::Module { problem };
        let executable = module.compile(&self.target);
        let executable = executable.map_err(|fault| refused(fault.to_string()))?;
        Ok(Box::new(RankBackend::new(executable, seed, self).map_err(refused)?))
    }
}
