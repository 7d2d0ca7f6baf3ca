//! What can be wrong with a strategy.

use mesh_core::names::{LayoutError, NameError};
use thiserror::Error;

/// The forms a strategy is written in.
const FORMS: &str = "one_device, mirrored:N or mirrored:[CORE,CORE,...], multi_worker:HxL (hosts x \
                     processors of each), tpu:XxY or tpu:XxYxZ, central_storage:N, \
                     parameter_server:N or parameter_server:N;staleness:D";

/// Why a strategy was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StrategyError {
    /// No strategy has this name.
    #[error("`{0}` is no strategy: legal are {FORMS}")]
    Unknown(String),
    /// What stands behind the name.
    #[error("{strategy} takes {expected}, as in `{example}`; `{found}` is none")]
    Argument {
        /// The strategy.
        strategy: &'static str,
        /// What was given.
        found: String,
        /// What would be legal.
        expected: &'static str,
        /// An example.
        example: &'static str,
    },
    /// One core twice.
    #[error("core {core} is named twice in {listed:?}: each processor has a core of its own")]
    Repeated {
        /// The core.
        core: usize,
        /// All that are named.
        listed: Vec<usize>,
    },
    /// No core at all, or a size of 0.
    #[error("{0} has no processors: sizes are 1 or more")]
    Empty(String),
    /// More directions than a torus has.
    #[error("a topology has 1 to 4 sizes (x, y, z, core); {found} are given")]
    Topology {
        /// How many sizes.
        found: usize,
    },
    /// A batch that cannot be shared out evenly.
    #[error("a batch of {batch} is no multiple of {replicas} replicas: {nearest} would be")]
    Batch {
        /// The size.
        batch: usize,
        /// The number of replicas.
        replicas: usize,
        /// Sizes that would do, in words.
        nearest: String,
    },
    /// The mesh that comes of it.
    #[error(transparent)]
    Mesh(#[from] NameError),
    /// The layout that comes of it.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
