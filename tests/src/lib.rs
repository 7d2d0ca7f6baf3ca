//! Tests of the whole system; see `tests/tests/`.
//!
//! The programs of README and of `docs/` are compiled and run here, as doc tests.
#![cfg_attr(doctest, doc = include_str!("../../README.md"))]

mod changed;
pub mod circles;
#[cfg(feature = "xla")]
mod devices;
mod on_host;
pub mod picky;
pub mod python;
mod skip;

pub use changed::changed;
#[cfg(feature = "xla")]
pub use devices::{fast, plugin};
pub use on_host::on_host;
pub use skip::{is_expected, skip};

#[cfg_attr(doctest, doc = include_str!("../../docs/layouts.md"))]
pub mod layouts {}

#[cfg_attr(doctest, doc = include_str!("../../docs/debugging.md"))]
pub mod debugging {}

#[cfg_attr(doctest, doc = include_str!("../../docs/training.md"))]
pub mod training {}

#[cfg_attr(doctest, doc = include_str!("../../docs/search.md"))]
pub mod search {}

#[cfg_attr(doctest, doc = include_str!("../../docs/serving.md"))]
pub mod serving {}

#[cfg_attr(doctest, doc = include_str!("../../docs/program.md"))]
pub mod program {}

#[cfg_attr(doctest, doc = include_str!("../../docs/from-cross-shard-optimizer.md"))]
pub mod from_cross_shard_optimizer {}

#[cfg_attr(doctest, doc = include_str!("../../docs/optimizers.md"))]
pub mod optimizers {}

#[cfg_attr(doctest, doc = include_str!("../../docs/from-tf-distribute.md"))]
pub mod from_tf_distribute {}

#[cfg_attr(doctest, doc = include_str!("../../docs/checkpoints.md"))]
pub mod checkpoints {}

/// Its programs are compiled where MPI is.
#[cfg_attr(all(doctest, feature = "mpi"), doc = include_str!("../../docs/clusters.md"))]
pub mod clusters {}

/// Its programs are compiled where the feature is on.
#[cfg_attr(all(doctest, feature = "xla"), doc = include_str!("../../docs/accelerators.md"))]
pub mod accelerators {}
