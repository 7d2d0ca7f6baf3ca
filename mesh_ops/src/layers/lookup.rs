//! Rows of a table by their numbers.

use crate::room::*;

/// The rows of `table` along `dim` that `indices` name; zeros for a number out of range.
#[track_caller]
pub(super) fn lookup<'g>(table: Tensor<'g>, indices: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let rows = table.shape().without(&[dim.name]);
    let hot = crate::one_hot(indices, dim, table.dtype());
    crate::einsum::einsum(hot, &[table], indices.shape().iter().chain(rows.iter()))
}
