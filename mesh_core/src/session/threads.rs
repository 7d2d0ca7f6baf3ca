//! A session on threads of this process.

use super::{Error, Result, Session};
use crate::exec::{Backend, ThreadBackend};
use crate::lower::Module;
use crate::passes::Target;

/// How a module runs on threads of this process.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Threads {
    /// What it is compiled for.
    pub target: Target,
    /// The core that each processor is kept on, where the system can do that; none if empty.
    pub cores: Vec<usize>,
    /// Whether each processor has a second thread, which carries out collectives beside computation
    /// that does not need them. Unless it is said, there are where each has a core. Results are the
    /// same.
    pub couriers: Option<bool>,
}

impl Threads {
    /// Compiled for another target.
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// With processor `i` kept on core `cores[i]`.
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = cores.into();
        self
    }

    /// With couriers, or without.
    pub fn couriers(mut self, couriers: bool) -> Self {
        self.couriers = Some(couriers);
        self
    }

    /// The back-end of a module, for [`Session::on`].
    ///
    /// # Errors
    /// As [`Session::threads_with`].
    pub fn start(&self, module: &Module, seed: u64) -> Result<Box<dyn Backend>> {
        let Self { target, cores, couriers } = self;
        let refused = |problem| Error::Module { problem };
        let processors = module.mesh().processors();
        if !cores.is_empty() && cores.len() != processors {
            return Err(refused(format!("{} cores for {processors} processors", cores.len())));
        }
        let executable = module.compile(target).map_err(|fault| refused(fault.to_string()))?;
        let backend = ThreadBackend::new(executable, seed, cores, *couriers).map_err(refused)?;
        Ok(Box::new(backend))
    }
}

impl Session {
    /// Runs a module on threads of this process, one per processor of its mesh, and initialises its
    /// variables. Everything random in it follows from `seed`.
    ///
    /// # Errors
    /// A mesh of more processors than this machine has threads or memory for; the error says how many
    /// would do.
    pub fn threads(module: &Module, seed: u64) -> Result<Self> {
        Self::threads_with(module, seed, &Threads::default())
    }

    /// As [`threads`](Self::threads), with choices.
    ///
    /// ```
    /// # use mesh_core::{lower::{Module, Target}, graph::Function, session::{Error, Session, Threads}};
    /// # use mesh_core::array::ArrayRef;
    /// # fn doc(module: &Module, train: &Function<1, 1>, batch: ArrayRef<'_>) -> Result<(), Error> {
    /// let threads = Threads::default().target(Target::host().check_numerics());
    /// let mut session = Session::threads_with(module, 0, &threads)?;
    /// if let Err(Error::NonFinite(found)) = session.call(train, [batch]) {
    ///     eprintln!("{found}");
    ///     assert!(found.origin.at.contains(".rs:"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As there, and cores that this machine does not have, or that are not one for each processor.
    pub fn threads_with(module: &Module, seed: u64, threads: &Threads) -> Result<Self> {
        Self::on(module, threads.start(module, seed)?)
    }
}
