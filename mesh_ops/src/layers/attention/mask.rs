//! Masks: bool tensors that are true where a query may attend, or floats added to logits.
//!
//! Bool masks combine by `logical_and`. They are functions of positions or labels, not of dims, so
//! one position at a time is masked as all are. Make a mask once and give it to every layer.
//!
//! A query that may attend to nothing gets the plain mean of all values. With a bool mask nothing
//! then depends on its logits; a mask that is added ([`additive_mask`]) costs one pass less in the
//! gradient, which is that of even weights there.

use super::memory_dim;
use crate::elementwise::{equal, greater_equal, less, logical_and, not_equal, select};
use crate::layers::fit::Fit;
use crate::room::*;
use mesh_core::graph::Graph;

/// The logit of a memory that may not be attended to, as in Mesh TensorFlow: its weight becomes
/// exactly 0 beside any other.
pub(super) const MASKED: f64 = -1e9;

/// That both are positions, and those of the memory have a dim of their own.
pub(super) fn positions(query: Tensor<'_>, memory: Tensor<'_>) -> Fit {
    let fit = Fit::new().integers("positions", query).integers("positions", memory);
    apart(fit, query, memory)
}

/// That the memory has a dim that the query lacks: else each position would be compared with itself
/// alone.
fn apart(fit: Fit, query: Tensor<'_>, memory: Tensor<'_>) -> Fit {
    fit.and(query, || None).and(memory, || {
        let (of_query, of_memory) = (query.shape(), memory.shape());
        let own = of_memory.iter().any(|d| !of_query.contains(d.name));
        let problem = || {
            format!(
                "the memory {memory:?} has no dim that {query:?} lacks; rename it with as_memory"
            )
        };
        (!own).then(problem)
    })
}

/// A query may attend to its own position and earlier ones. Both are positions, i32; those of the
/// memory have a dim that those of the query lack.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{causal_mask, memory_dim};
/// # let g = mesh_ops::graph();
/// let length = dim("length", 16);
/// let memory = mesh_ops::range(&g, memory_dim(length), I32);
/// let mask = causal_mask(mesh_ops::range(&g, length, I32), memory);
/// assert_eq!(mask.shape().to_string(), "[length:16, memory_length:16]");
/// ```
#[track_caller]
pub fn causal_mask<'g>(query: Tensor<'g>, memory: Tensor<'g>) -> Tensor<'g> {
    let _layer = query.graph().for_layer("causal_mask");
    if let Some(poisoned) = positions(query, memory).refused("causal_mask", query) {
        return poisoned;
    }
    greater_equal(query, memory)
}

/// [`causal_mask`] over all positions of a dim and its memory.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let mask = mesh_ops::layers::attention::causal(&g, dim("length", 16));
/// assert_eq!(mask.shape().to_string(), "[length:16, memory_length:16]");
/// ```
#[track_caller]
pub fn causal(graph: &Graph, length: Dimension) -> Tensor<'_> {
    let memory = crate::range(graph, memory_dim(length), DType::I32);
    causal_mask(crate::range(graph, length, DType::I32), memory)
}

/// A query may attend to its own position and the `width - 1` before it.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{memory_dim, window_mask};
/// # let g = mesh_ops::graph();
/// let length = dim("length", 16);
/// let memory = mesh_ops::range(&g, memory_dim(length), I32);
/// let mask = window_mask(mesh_ops::range(&g, length, I32), memory, 4);
/// assert_eq!(mask.dtype(), Bool);
/// ```
#[track_caller]
pub fn window_mask<'g>(query: Tensor<'g>, memory: Tensor<'g>, width: usize) -> Tensor<'g> {
    let _layer = query.graph().for_layer("window_mask");
    if let Some(poisoned) = positions(query, memory).refused("window_mask", query) {
        return poisoned;
    }
    let near = less(query - memory, query.scalar_like(width as f64));
    logical_and(causal_mask(query, memory), near)
}

/// A query may attend to its own segment: sequences packed one after the other.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{as_memory, segment_mask};
/// # let g = mesh_ops::graph();
/// let length = dim("length", 16);
/// let segment = g.input("segment", [dim("batch", 4), length], I32);
/// let mask = segment_mask(segment, as_memory(segment, length));
/// assert_eq!(mask.shape().to_string(), "[batch:4, length:16, memory_length:16]");
/// ```
#[track_caller]
pub fn segment_mask<'g>(query: Tensor<'g>, memory: Tensor<'g>) -> Tensor<'g> {
    let _layer = query.graph().for_layer("segment_mask");
    if let Some(poisoned) = apart(Fit::new(), query, memory).refused("segment_mask", query) {
        return poisoned;
    }
    equal(query, memory)
}

/// Any query may attend where the memory's token is not 0.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{as_memory, padding_mask};
/// # let g = mesh_ops::graph();
/// let length = dim("length", 16);
/// let ids = g.input("ids", [dim("batch", 4), length], I32);
/// let mask = padding_mask(as_memory(ids, length));
/// assert_eq!(mask.shape().to_string(), "[batch:4, memory_length:16]");
/// ```
#[track_caller]
pub fn padding_mask(memory: Tensor<'_>) -> Tensor<'_> {
    let _layer = memory.graph().for_layer("padding_mask");
    not_equal(memory, memory.scalar_like(0.0))
}

/// 0 where a bool mask is true, else -1e9.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{additive_mask, causal};
/// # let g = mesh_ops::graph();
/// assert_eq!(additive_mask(causal(&g, dim("length", 16)), F32).dtype(), F32);
/// ```
#[track_caller]
pub fn additive_mask(mask: Tensor<'_>, dtype: DType) -> Tensor<'_> {
    let _layer = mask.graph().for_layer("additive_mask");
    let problem = || format!("a mask must be of bools, and {mask:?} is not; compare it");
    let fit = Fit::new().and(mask, || (mask.dtype() != DType::Bool).then(problem));
    if let Some(poisoned) = fit.refused("additive_mask", mask) {
        return poisoned;
    }
    let graph = mask.graph();
    select(mask, graph.scalar(0.0, dtype), graph.scalar(MASKED, dtype))
}

/// A mask is of bools or floats and has some of the logits' dims.
pub(super) fn fit_mask(fit: Fit, mask: Tensor<'_>, logits: &Shape) -> Fit {
    let problem = || format!("a mask is of bools, or of floats to be added; {mask:?} is neither");
    let fit = fit.and(mask, || (mask.dtype() == DType::I32).then(problem));
    fit.among("a mask", mask, logits)
}
