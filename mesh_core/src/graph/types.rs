//! Types of tensors and of operations.

use crate::names::{DType, Shape};
use std::fmt;

/// Shape and element type of a tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TensorType {
    /// Named dims in declared order; global sizes.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

impl TensorType {
    /// A type.
    pub fn new(shape: Shape, dtype: DType) -> Self {
        Self { shape, dtype }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// Global types of an operation's inputs and outputs.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    /// In argument order.
    pub inputs: &'a [TensorType],
    /// In result order.
    pub outputs: &'a [TensorType],
}
