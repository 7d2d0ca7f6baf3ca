//! Sessions on threads of this process.

use super::{Error, Result, Session};
use crate::exec::ThreadMachine;
use crate::lower::Module;

impl Session {
    /// Makes a session with a thread of this process for each processor of the mesh, and
    /// initialises its variables. Initial values and random numbers follow from `seed`.
    ///
    /// # Errors
    ///
    /// If this machine has too few threads or too little memory for the mesh; the error says how
    /// many processors would do.
    pub fn threads(module: &Module, seed: u64) -> Result<Self> {
        Self::on_threads(module, seed, &[], None)
    }

    /// [`threads`](Self::threads) with processor `i` pinned to core `cores[i]`, where the system
    /// can do that.
    ///
    /// # Errors
    ///
    /// As [`threads`](Self::threads), and if there are not as many cores as processors, or a core
    /// does not exist.
    pub fn pinned(module: &Module, seed: u64, cores: &[usize]) -> Result<Self> {
        let processors = module.mesh().processors();
        if cores.len() != processors {
            let problem = format!("{} cores for {processors} processors", cores.len());
            return Err(Error::Module { problem });
        }
        Self::on_threads(module, seed, cores, None)
    }

    /// [`threads`](Self::threads) with a second thread for each processor, which carries out
    /// collectives while the first computes. By default there are such threads only where each has
    /// a core of its own. The results are the same.
    ///
    /// # Errors
    ///
    /// As [`threads`](Self::threads).
    pub fn with_couriers(module: &Module, seed: u64) -> Result<Self> {
        Self::on_threads(module, seed, &[], Some(true))
    }

    fn on_threads(
        module: &Module,
        seed: u64,
        cores: &[usize],
        couriers: Option<bool>,
    ) -> Result<Self> {
        let mesh = module.mesh();
        let local: Vec<_> =
            module.variables().iter().map(|variable| variable.local(mesh)).collect();
        let functions = module.functions().iter().chain([module.init()]);
        ThreadMachine::check(mesh, &local, functions, couriers)
            .map_err(|problem| Error::Module { problem })?;
        Self::on(module, |variables, functions| {
            let machine =
                ThreadMachine::with_couriers(mesh, variables, functions, seed, cores, couriers)?;
            Ok(Box::new(machine))
        })
    }
}
