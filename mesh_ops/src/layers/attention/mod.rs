//! Attention: queries gather values from a memory, weighted by how well its keys fit.
//!
//! A tensor cannot have a dim twice, so the positions of the memory have a dim of their own: where
//! queries and memory come of one tensor, keys and values are *renamed* from `length` to
//! [`MEMORY_LENGTH`]. Under a layout that splits `length` (and does not split `memory_length`) that
//! rename is an all-gather of keys and values, and each processor does its own queries; under other
//! layouts it is nothing. In blocks nothing is renamed: keys and values are gathered or go round, or heads are split
//! within attention ([`Exchange`](crate::attention::Exchange)). Heads split over an axis make each processor do its own heads, and the
//! output projection owes one sum: one all-reduce per attention forward, one backward.
//!
//! | room | what it is |
//! |---|---|
//! | `dot_product` | the attention of given queries, keys and values: all scores at once, or [`attention`](crate::attention) |
//! | `mask` | who may attend to whom |
//! | `rotary`, `relative` | what positions mean |
//! | `multi_head` | projections around it: full pass, cross attention |
//! | `decode` | one position at a time, with the keys and values of earlier ones kept |
//! | `local`, `local_2d` | a window of positions, block by block |
//! | `compressed` | a memory of means of blocks |
//! | `talking` | heads mixed before and after the softmax |

mod blocks;
mod compressed;
mod decode;
mod dot_product;
mod local;
mod local_2d;
mod mask;
mod multi_head;
mod relative;
mod rotary;
mod talking;

pub use compressed::CompressedMemory;
pub use decode::CacheVariables;
pub use dot_product::{AttentionOptions, AttentionWay, dot_product_attention};
pub use local::LocalAttention;
pub use local_2d::LocalAttention2d;
pub use mask::{additive_mask, causal, causal_mask, padding_mask, segment_mask, window_mask};
pub use multi_head::{KeyValues, MultiHead, MultiHeadWeights};
pub use relative::RelativeBias;
pub use rotary::Rotation;
pub use talking::TalkingHeads;

use crate::room::*;

/// The name of the dim along which queries look.
pub const MEMORY_LENGTH: &str = "memory_length";

/// `x` as a memory: its dim `length` is renamed to [`MEMORY_LENGTH`].
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let length = dim("length", 16);
/// let segment = g.input("segment", [dim("batch", 4), length], I32);
/// let memory = mesh_ops::layers::attention::as_memory(segment, length);
/// assert_eq!(memory.shape().to_string(), "[batch:4, memory_length:16]");
/// ```
#[track_caller]
pub fn as_memory(x: Tensor<'_>, length: Dimension) -> Tensor<'_> {
    let _layer = x.graph().for_layer("as_memory");
    crate::rename(x, length, MEMORY_LENGTH)
}

/// The dim of a memory as long as `length`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// let memory = mesh_ops::layers::attention::memory_dim(dim("length", 16));
/// assert_eq!(memory, dim("memory_length", 16));
/// ```
pub fn memory_dim(length: Dimension) -> Dimension {
    length.renamed(MEMORY_LENGTH)
}
