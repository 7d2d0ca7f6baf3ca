//! Sessions on the reference back-end.

use super::{Error, Result, Session};
use crate::exec::Reference;
use crate::lower::Module;
use crate::passes::Target;
use crate::program::Program;

impl Session {
    /// Makes a session that runs a module naively: every step as its form is specified, element by
    /// element, rounded once, all processors of the mesh one after the other in the caller's thread. It is
    /// slow, but needs neither cores nor memory for each processor: the layout for a cluster of hundreds
    /// of processors can be tried with true numbers on one core, if the sizes are small.
    ///
    /// The results are those of other back-ends up to the rounding of sums within a step; integers, and
    /// sums over processors, are the same. Initial values and random numbers follow from `seed` as
    /// everywhere.
    ///
    /// ```
    /// # use mesh_core::{array::ArrayRef, lower::Module, graph::Function, session::{Error, Session}};
    /// # fn doc(module: &Module, train: &Function<1, 1>, batch: ArrayRef<'_>) -> Result<(), Error> {
    /// let mut session = Session::reference(module, 0)?;
    /// let [loss] = session.call(train, [batch])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the initialisation fails.
    pub fn reference(module: &Module, seed: u64) -> Result<Self> {
        Self::on(module, Reference::new(module, seed)?)
    }
}

impl Reference {
    /// Makes the back-end of a module, which runs its programs as they are lowered, for
    /// [`Session::on`].
    ///
    /// # Errors
    ///
    /// A mesh that cannot be one process's.
    pub fn new(module: &Module, seed: u64) -> Result<Self> {
        let programs = module.functions().iter().chain([module.init()]);
        Self::running(module, programs.cloned().collect(), seed)
    }

    /// Makes the back-end of a module that runs its programs as they are compiled for a target. Where the
    /// results differ from those of [`new`](Self::new) by more than the rounding of sums, one of the
    /// target's passes is wrong.
    ///
    /// # Errors
    ///
    /// As [`Module::compile`].
    pub fn compiled(module: &Module, target: &Target, seed: u64) -> Result<Self> {
        let executable = module.compile(target);
        let executable =
            executable.map_err(|fault| Error::Module { problem: fault.to_string() })?;
        let programs = executable.programs().map(|compiled| compiled.program.clone());
        Self::running(module, programs.collect(), seed)
    }

    fn running(module: &Module, programs: Vec<Program>, seed: u64) -> Result<Self> {
        let mesh = module.mesh();
        let variables = module.variables().iter().map(|variable| variable.local(mesh)).collect();
        Self::of(mesh, variables, programs, seed).map_err(|problem| Error::Module { problem })
    }
}
