//! A session on threads of this process.

use super::{Error, Result, Session};
use crate::exec::ThreadMachine;
use crate::lower::Module;

impl Session {
    /// Runs a module on threads of this process, one per processor of its mesh, and initialises its
    /// variables. Everything random in it follows from `seed`. A mesh of more processors than this
    /// machine has threads or memory for is an error that says how many would do.
    pub fn threads(module: &Module, seed: u64) -> Result<Self> {
        Self::on_threads(module, seed, &[], None)
    }

    /// As [`threads`](Self::threads), with processor `i` kept on core `cores[i]`, where the system
    /// can do that; a core that it does not have is an error.
    pub fn pinned(module: &Module, seed: u64, cores: &[usize]) -> Result<Self> {
        let processors = module.mesh().processors();
        if cores.len() != processors {
            let problem = format!("{} cores for {processors} processors", cores.len());
            return Err(Error::Module { problem });
        }
        Self::on_threads(module, seed, cores, None)
    }

    /// As [`threads`](Self::threads), with a second thread for each processor, which carries out
    /// collectives beside computation that does not need them, or without. Where it is not said there
    /// are such threads if there is a core for each. Results are the same.
    pub fn with_couriers(module: &Module, seed: u64, couriers: bool) -> Result<Self> {
        Self::on_threads(module, seed, &[], Some(couriers))
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
