//! Changes the programs of a module.

use mesh_core::lower::{Module, ModuleError};
use mesh_core::program::Program;

/// A copy of a module, with `change` applied to its functions and then to its initialisation.
pub fn changed(
    module: &Module,
    change: impl FnOnce(&mut [Program], &mut Program),
) -> Result<Module, ModuleError> {
    let (mut functions, mut init) = (module.functions().to_vec(), module.init().clone());
    change(&mut functions, &mut init);
    Module::new(module.mesh().clone(), module.variables().to_vec(), functions, init)
}
