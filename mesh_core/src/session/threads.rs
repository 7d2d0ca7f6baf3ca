//! Sessions on threads of this process.

use super::{Error, Result, Session};
use crate::exec::{Backend, ThreadBackend, cpu};
use crate::lower::{self, Explain, Module, Warnings};
use crate::passes::{Fault, Target};

/// Threads for each core from which on a session warns. A layout is tried with a few; with more, a call
/// mostly switches between threads.
const CROWD: usize = 8;

/// How a module runs on threads of this process.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Threads {
    /// The target that the module is compiled for.
    pub target: Target,
    /// The core that each processor is pinned to, where the system can do that. Empty pins none.
    pub cores: Vec<usize>,
    /// Whether each processor has a courier: a second thread that carries out collectives while the
    /// first computes. With `None` there are couriers if each has a core of its own. The results
    /// are the same.
    pub couriers: Option<bool>,
    /// Whether anybody is told that the mesh is large for the machine: many threads for each core.
    pub warnings: Warnings,
}

impl Threads {
    /// Sets the target.
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// Pins processor `i` to core `cores[i]`.
    pub fn cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.cores = cores.into();
        self
    }

    /// Switches couriers on or off.
    pub fn couriers(mut self, couriers: bool) -> Self {
        self.couriers = Some(couriers);
        self
    }

    /// Says who is told of warnings.
    pub fn warnings(mut self, warnings: Warnings) -> Self {
        self.warnings = warnings;
        self
    }

    /// What each function does when it runs so: as [`Module::explain_for`] for the target, with the way in
    /// which this machine's kernels run each convolution. Runs nothing.
    ///
    /// # Errors
    /// As [`Module::compile`].
    pub fn explain(&self, module: &Module) -> std::result::Result<Explain, Fault> {
        module.explain_with(&self.target, &cpu::way)
    }

    /// Makes the back-end of a module, for [`Session::on`].
    ///
    /// # Errors
    /// As [`Session::threads_with`].
    pub fn start(&self, module: &Module, seed: u64) -> Result<Box<dyn Backend>> {
        let Self { target, cores, couriers, warnings } = self;
        let refused = |problem| Error::Module { problem };
        let processors = module.mesh().processors();
        if !cores.is_empty() && cores.len() != processors {
            return Err(refused(format!("{} cores for {processors} processors", cores.len())));
        }
        let executable = module.compile(target).map_err(|fault| refused(fault.to_string()))?;
        let backend = ThreadBackend::new(executable, seed, cores, *couriers).map_err(refused)?;
        if let (Some(crowd), Warnings::Report) =
            (crowd(processors, ThreadBackend::cores()), warnings)
        {
            lower::tell(&crowd);
        }
        Ok(Box::new(backend))
    }
}

/// What is said of so many processors on so many cores.
fn crowd(processors: usize, cores: usize) -> Option<String> {
    let cores_text = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
    (processors >= CROWD * cores).then(|| {
        format!(
            "the mesh has {processors} processors, and each is a thread on {cores_text}: they take turns; \
             for speed, take a mesh of at most {cores}"
        )
    })
}

impl Session {
    /// Makes a session with a thread of this process for each processor of the mesh, and
    /// initialises its variables. Initial values and random numbers follow from `seed`.
    ///
    /// # Errors
    ///
    /// If this machine has too few threads or too little memory for the mesh; the error says how
    /// many processors would do. Eight and more processors for each core are a warning.
    pub fn threads(module: &Module, seed: u64) -> Result<Self> {
        Self::threads_with(module, seed, &Threads::default())
    }

    /// [`threads`](Self::threads) with options.
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
    ///
    /// As [`threads`](Self::threads), and if there are not as many cores as processors, or a core
    /// does not exist.
    pub fn threads_with(module: &Module, seed: u64, threads: &Threads) -> Result<Self> {
        Self::on(module, threads.start(module, seed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_for_each_core_are_said() {
        assert_eq!(crowd(8, 2), None);
        assert_eq!(crowd(7, 1), None);
        let said = "the mesh has 64 processors, and each is a thread on 2 cores: they take turns; for \
                    speed, take a mesh of at most 2";
        assert_eq!(crowd(64, 2).as_deref(), Some(said));
        assert!(crowd(8, 1).is_some_and(|said| said.contains("on 1 core:")));
    }
}
