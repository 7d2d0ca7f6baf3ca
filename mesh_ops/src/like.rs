//! `zeros_like(x)`, `ones_like(x)`: tensors of equal elements; see
//! [`Tensor::fill_like`] for other numbers.

use crate::room::*;

/// Zeros of the shape and dtype of `x`; of bools, false.
#[track_caller]
pub fn zeros_like(x: Tensor<'_>) -> Tensor<'_> {
    x.fill_like(0.0)
}

/// Ones of the shape and dtype of `x`; of bools, true.
#[track_caller]
pub fn ones_like(x: Tensor<'_>) -> Tensor<'_> {
    x.fill_like(1.0)
}
