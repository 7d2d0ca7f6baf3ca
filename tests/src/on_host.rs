//! What a host runs.

use mesh_core::lower::{Module, Target};
use mesh_core::program::Compiled;

/// A module's functions as a host runs them, with plans of the memory they take.
pub fn on_host(module: &Module) -> Vec<Compiled> {
    module.compile(&Target::host()).unwrap().functions
}
