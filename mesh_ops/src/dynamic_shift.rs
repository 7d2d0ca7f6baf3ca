//! `dynamic_shift(x, offset, dim, wrap)`: moves elements along a dim by an offset that is computed.
//! `reverse(x, dim)` turns a dim round.
//!
//! Compositions: a gather from x along a renamed dim. Over a split dim the rename gathers x along
//! it, since any element may be needed anywhere; [`shift`](crate::shift) by a known offset moves
//! only what travels. The gradient falls out.

use crate::elementwise::{modulo, sub};
use crate::room::*;

/// `out[i] = x[i - offset]` along `dim`. `offset` (i32) may differ along the other dims of x. Where
/// `i - offset` is outside `x` there is zero, or with `wrap` the element at that position modulo the
/// size.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, time) = (dim("batch", 2), dim("time", 8));
/// let (x, by) = (g.input("x", [batch, time], F32), g.input("by", [batch], I32));
/// assert_eq!(mesh_ops::dynamic_shift(x, by, time, false).shape(), x.shape());
/// ```
#[track_caller]
pub fn dynamic_shift<'g>(
    x: Tensor<'g>,
    offset: Tensor<'g>,
    dim: Dimension,
    wrap: bool,
) -> Tensor<'g> {
    if x.is_poisoned() || offset.is_poisoned() {
        return x.poisoned();
    }
    let graph = x.graph();
    let others = x.shape().without(&[dim.name]);
    let own = offset.shape();
    if let Some(stray) = own.iter().find(|d| others.get(d.name) != Some(*d)) {
        graph.record(
            "dynamic_shift",
            format!("{stray} of {offset:?} is not among {others} of {x:?}"),
        );
        return x.poisoned();
    }
    if offset.dtype() != DType::I32 {
        graph.record("dynamic_shift", format!("the offset is i32, not {}", offset.dtype()));
        return x.poisoned();
    }
    let here = crate::range(graph, dim, DType::I32);
    let from = if wrap {
        // First the offset, so that no difference overflows.
        let size = graph.scalar(dim.size as f64, DType::I32);
        modulo(sub(here, modulo(offset, size)), size)
    } else {
        sub(here, offset)
    };
    taken(x, from, dim)
}

/// `x` with the elements along `dim` from last to first.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 8);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::reverse(x, time).shape(), x.shape());
/// ```
#[track_caller]
pub fn reverse(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    if x.is_poisoned() {
        return x;
    }
    let last = x.graph().scalar(dim.size as f64 - 1.0, DType::I32);
    taken(x, sub(last, crate::range(x.graph(), dim, DType::I32)), dim)
}

/// `x` with each position along `dim` taken from another.
#[track_caller]
fn taken<'g>(x: Tensor<'g>, from: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let source = apart(&x.shape(), dim, "source");
    let whole = crate::rename(x, dim, source.name.as_str());
    if whole.is_poisoned() {
        return whole;
    }
    crate::transpose(crate::gather(whole, from, source), x.shape())
}
