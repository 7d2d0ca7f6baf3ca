//! Programs on the devices of XLA: CPUs, GPUs and TPUs, by way of the C interface that plugins share (PJRT).
//!
//! A plugin is a library that is opened when a program runs; nothing is linked. It compiles a function's
//! StableHLO for all devices of the mesh at once, a *replica* for each processor. Variables stay on the devices
//! from call to call: a function takes their buffers, and those that it writes come back as results in the same
//! memory.
//!
//! `ffi` has all that is unsafe, and is safe to use.

mod ahead;
mod backend;
mod collectives;
mod compile_options;
mod ffi;
mod plugin;

pub use self::ahead::Ahead;
pub(crate) use self::ahead::compile_ahead;
pub(crate) use self::backend::XlaBackend;
pub(crate) use self::collectives::collectives;
pub use self::plugin::{Plugin, PluginError};
