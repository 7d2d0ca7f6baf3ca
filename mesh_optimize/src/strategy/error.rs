//! The errors of strategies.

use mesh_core::names::{LayoutError, NameError};
use thiserror::Error;

/// How strategies are written.
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
    /// The text after the strategy's name is wrong.
    #[error("{strategy} takes {expected}, as in `{example}`; `{found}` is none")]
    Argument {
        /// The strategy.
        strategy: &'static str,
        /// The text that was given.
        found: String,
        /// What would be legal.
        expected: &'static str,
        /// An example.
        example: &'static str,
    },
    /// A core is listed twice.
    #[error("core {core} is named twice in {listed:?}: each processor has a core of its own")]
    Repeated {
        /// The core.
        core: usize,
        /// The list.
        listed: Vec<usize>,
    },
    /// The list of cores is empty, or a size is 0.
    #[error("{0} has no processors: sizes are 1 or more")]
    Empty(String),
    /// A topology has too many directions.
    #[error("a topology has 1 to 4 sizes (x, y, z, core); {found} are given")]
    Topology {
        /// How many sizes were given.
        found: usize,
    },
    /// A batch cannot be divided evenly among the replicas.
    #[error("a batch of {batch} is no multiple of {replicas} replicas: {nearest} would be")]
    Batch {
        /// The size of the batch.
        batch: usize,
        /// The number of replicas.
        replicas: usize,
        /// The nearest legal sizes, in words.
        nearest: String,
    },
    /// The strategy's mesh is refused.
    #[error(transparent)]
    Mesh(#[from] NameError),
    /// The strategy's layout is refused.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
