//! XLA's devices for tests, through the plugin that `MESH_PJRT_PLUGIN` names.

use crate::skip;
use mesh_core::names::{Layout, Mesh};
use mesh_core::session::{Plugin, Session, Xla};
use std::sync::Mutex;

/// A session that does nothing. As long as there is one, a plugin's devices stay open, which takes GPUs a second.
static HELD: Mutex<Option<Session>> = Mutex::new(None);

/// The plugin to test with; without one the test that calls is skipped.
///
/// # Panics
///
/// If what is named is no plugin, or this machine is expected to have one (`xla`).
pub fn plugin() -> Option<Plugin> {
    match std::env::var_os("MESH_PJRT_PLUGIN") {
        Some(path) => {
            let plugin = Plugin::open(path).unwrap_or_else(|error| panic!("{error}"));
            let mut held = HELD.lock().unwrap();
            held.get_or_insert_with(|| {
                let nothing = mesh_ops::graph().lower(&Mesh::single(), &Layout::default());
                Session::xla(&nothing.unwrap(), 0, &plugin).unwrap()
            });
            Some(plugin)
        }
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
