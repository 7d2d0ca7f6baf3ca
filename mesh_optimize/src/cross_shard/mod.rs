//! The features of TensorFlow's `CrossShardOptimizer` for models over named dims.
//!
//! No wrapper is needed: a gradient over a split batch is summed because the layout splits the
//! batch. What remains is to make one loss of the losses of shards ([`cross_shard_loss`]), to say
//! which processors train together ([`Groups`]), and to prove that gradients are reduced
//! ([`assert_reduced`]).

mod groups;
mod reduced;

pub use groups::{GroupError, Groups};
pub use reduced::{ReducedError, Unreduced, assert_reduced};

use mesh_core::graph::Tensor;
use mesh_core::names::Dimension;
use mesh_ops::Ops;
use std::fmt;
use std::str::FromStr;

/// How the values of several shards or replicas are combined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reduction {
    /// By their sum.
    Sum,
    /// By their mean.
    #[default]
    Mean,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
        })
    }
}

/// The error for a word that is neither `SUM` nor `MEAN`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no reduction of losses: legal are SUM and MEAN")]
pub struct UnknownReduction(String);

impl FromStr for Reduction {
    type Err = UnknownReduction;

    /// Reads `SUM` or `MEAN`, in any case.
    fn from_str(text: &str) -> Result<Self, UnknownReduction> {
        match text.trim().to_ascii_lowercase().as_str() {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            _ => Err(UnknownReduction(text.to_owned())),
        }
    }
}

/// Combines the losses of shards into one: `loss` has the dim `shard`, the result does not.
///
/// `MEAN` divides each shard's loss by the number of shards before they are added, so a regulariser
/// inside the loss counts once. `SUM` adds them as they are, and a regulariser counts once per
/// shard. The gradients follow. Other dims of `loss`, such as the members of an ensemble, stay.
///
/// The number of shards belongs to the model, not to the mesh. With `shard:data` each processor
/// along `data` computes its shards; any other layout gives the same numbers. A loss without the
/// dim counts as the loss of a single shard: it is returned as it is, with a warning.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Reduction, Sgd, cross_shard_loss};
///
/// let g = mesh_ops::graph();
/// let (shard, batch, x) = (dim("shard", 4), dim("batch", 16), dim("x", 8));
/// let input = g.input("input", [shard, batch, x], F32);
/// let error = input.dense(dim("y", 3), "out").square();
/// let loss = error.mean_over([batch, dim("y", 3)]);            // one for each shard
/// let loss = cross_shard_loss(loss, shard, Reduction::Mean);
/// g.function("train", [input], [loss], Sgd::new(0.1).minimize(loss));
/// g.lower(&"data:4".parse()?, &"shard:data".parse()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn cross_shard_loss<'g>(
    loss: Tensor<'g>,
    shard: Dimension,
    reduction: Reduction,
) -> Tensor<'g> {
    let graph = loss.graph();
    match loss.shape().get(shard.name) {
        _ if loss.is_poisoned() => loss,
        None => {
            let message = format!("{loss:?} has no dim `{}`: one shard is assumed", shard.name);
            graph.warn("cross_shard_loss", message);
            loss
        }
        Some(found) if found != shard => {
            let message = format!("{loss:?} has {found}, and {shard} is asked for");
            graph.record("cross_shard_loss", message);
            loss.poisoned()
        }
        Some(_) if reduction == Reduction::Mean && shard.size > 1 => {
            (loss * (1.0 / shard.size as f64)).sum([shard])
        }
        Some(_) => loss.sum([shard]),
    }
}
