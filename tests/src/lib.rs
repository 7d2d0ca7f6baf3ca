//! Tests of the whole system; see `tests/tests/`.
//!
//! The programs of README and of `docs/` are compiled and run here, as doc tests.
#![doc = include_str!("../../README.md")]

mod changed;
pub mod circles;
mod on_host;
pub mod picky;
pub mod python;

pub use changed::changed;
pub use on_host::on_host;

#[doc = include_str!("../../docs/layouts.md")]
pub mod layouts {}

#[doc = include_str!("../../docs/debugging.md")]
pub mod debugging {}

#[doc = include_str!("../../docs/training.md")]
pub mod training {}

#[doc = include_str!("../../docs/serving.md")]
pub mod serving {}

#[doc = include_str!("../../docs/program.md")]
pub mod program {}

#[doc = include_str!("../../docs/from-cross-shard-optimizer.md")]
pub mod from_cross_shard_optimizer {}

#[doc = include_str!("../../docs/from-tf-distribute.md")]
pub mod from_tf_distribute {}

#[doc = include_str!("../../docs/checkpoints.md")]
pub mod checkpoints {}

/// Its programs are compiled where MPI is.
#[cfg_attr(feature = "mpi", doc = include_str!("../../docs/clusters.md"))]
pub mod clusters {}
