//! XLA's devices for tests, through the plugin that `MESH_PJRT_PLUGIN` names.

use crate::skip;
use mesh_core::session::{Plugin, Xla};

/// The plugin to test with; without one the test that calls is skipped.
///
/// # Panics
///
/// If what is named is no plugin, or this machine is expected to have one (`xla`).
pub fn plugin() -> Option<Plugin> {
    match std::env::var_os("MESH_PJRT_PLUGIN") {
        Some(path) => Some(Plugin::open(path).unwrap_or_else(|error| panic!("{error}"))),
        None => {
            skip("xla", "MESH_PJRT_PLUGIN names no plugin");
            None
        }
    }
}

/// The plugin's devices, with programs compiled fast: they run a few times.
pub fn fast(plugin: &Plugin) -> Xla {
    Xla::new(plugin).flag("xla_backend_optimization_level", "0")
}
