//! Runs programs: numbers in, numbers out.
//!
//! `cpu` has the local forms' kernels. [`Comm`](comm::Comm) is how a processor meets others, with
//! one room per way: `threads` and, with the feature of that name, `mpi`. A crew runs the processors
//! of this process on threads, whichever way they meet others; each room's [`Backend`] is a crew and
//! what processes have to do with each other. `reference` runs the meaning of each step, naively; `xla`, with the
//! feature of that name, hands programs to a plugin that compiles for other devices. An
//! [`Executor`](run::Executor) is one function prepared for one processor; its step loop
//! allocates nothing and looks nothing up.
//!
//! A collective that is begun in one place and awaited in another runs beside what stands between, on
//! a [courier](comm::courier)'s thread where there are cores for that.
//!
//! This room knows no layout: extents, strides, groups and plans only.

mod action;
mod addressable;
mod backend;
mod border;
mod comm;
pub(crate) mod cpu;
mod memory;
#[cfg(feature = "mpi")]
mod mpi;
mod prepare;
mod record;
mod reference;
mod run;
mod seed;
mod strided;
mod sync;
mod threads;
#[cfg(feature = "xla")]
mod xla;

#[cfg(feature = "mpi")]
pub(crate) use self::mpi::RankBackend;
#[cfg(feature = "mpi")]
pub use self::mpi::Ranks;
pub use self::reference::Reference;
#[cfg(feature = "xla")]
pub use self::xla::{Ahead, Plugin, PluginError};
#[cfg(feature = "xla")]
pub(crate) use self::xla::{XlaBackend, collectives, compile_ahead};
pub(crate) use addressable::{Addressable, Ranges, is_addressable};
pub use backend::{Backend, Capabilities, Failure, Processes};
pub use record::{CallTimes, Span, StepTimes};
pub(crate) use run::numerics::digits;
pub use run::numerics::{GivenTo, InIteration, NonFinite, Summary};
pub(crate) use threads::ThreadBackend;
