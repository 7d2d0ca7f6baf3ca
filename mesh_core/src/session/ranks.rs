//! A session on the ranks of an MPI job.

pub use crate::exec::Ranks;

use super::{Error, Result, Session};
use crate::exec::{Backend, RankBackend};
use crate::lower::Module;

impl Session {
    /// Runs a module on the ranks of an MPI job, and initialises its variables. The processors of
    /// the mesh are shared evenly among the ranks, each of which runs its own on a thread each
    /// ([`processes`](Self::processes) says which); a mesh that cannot be shared so is an error before
    /// any work.
    ///
    /// Every rank makes the session of the same module and seed, and then calls the same methods with
    /// the same arguments in the same order; before the first step they compare what they are about
    /// to run, down to the kernels. Each takes its slices from the global arrays, or is fed only
    /// [what it needs](Self::feeds) of them, and each is given all of the fetches and variables, so
    /// that what the program decides by them it decides everywhere alike. Results are those of [`threads`](Self::threads), bit for bit, on the same
    /// mesh and layout.
    ///
    /// A rank that fails, or waits for others longer than the deadline, says so on standard error and
    /// ends the job. So does a process that exits with a status other than 0. [`Recorded`] times are
    /// those of this rank's processors.
    ///
    /// [`Recorded`]: super::Recorded
    pub fn mpi(module: &Module, seed: u64) -> Result<Self> {
        Self::mpi_with(module, seed, &Ranks::default())
    }

    /// As [`mpi`](Self::mpi), with choices.
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
