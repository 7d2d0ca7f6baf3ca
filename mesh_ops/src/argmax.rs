//! `argmax(x, dim)`: the index of the greatest element; the first of equals, a NaN if there is one.
//!
//! A composition: the least index at which x attains its maximum. On a split dim that is a maximum
//! and a minimum over the group.

use crate::elementwise::{equal, logical_or, not_equal, select};
use crate::room::*;

/// The index along `dim` of the greatest element, as i32.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let logits = g.input("logits", [batch, classes], F32);
/// assert_eq!(mesh_ops::argmax(logits, classes).shape().to_string(), "[batch:4]");
/// ```
#[track_caller]
pub fn argmax<'g>(x: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let x = x.stop_gradient();
    let greatest = crate::reduce::max(x, [dim]);
    let mut attained = equal(x, greatest);
    if x.dtype().is_float() {
        attained = logical_or(attained, not_equal(x, x));
    }
    let index = crate::range(x.graph(), dim, DType::I32);
    let beyond = x.graph().scalar(dim.size as f64, DType::I32);
    crate::reduce::min(select(attained, index, beyond), [dim])
}
