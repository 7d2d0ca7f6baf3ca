//! Tensors without inputs: fed, or known when the graph is built.

use super::structural::{Constant, Fill, Input};
use super::{Asked, Graph, Tensor, TensorType};
use crate::array::Array;
use crate::names::{DType, Dimension};

impl Graph {
    /// A tensor that is fed by the caller of a function. Names are unique in the graph.
    #[track_caller]
    pub fn input(
        &self,
        name: &str,
        dims: impl IntoIterator<Item = Dimension>,
        dtype: DType,
    ) -> Tensor<'_> {
        let Some(shape) = self.shape(name, dims) else { return self.poison() };
        if self.data().inputs.contains_key(name) {
            self.record(name, "an input of this name exists already");
            return self.poison();
        }
        let op = Input { name: name.to_owned(), ty: TensorType::new(shape, dtype) };
        let asked = Asked::default().named(name);
        let blocks = self.leave(0);
        let tensor = self.apply_as(op, &[], 1, asked)[0];
        self.reenter(blocks);
        self.data.borrow_mut().inputs.insert(name.to_owned(), tensor.id());
        tensor
    }

    /// A number without dims, in any dtype.
    #[track_caller]
    pub fn scalar(&self, value: f64, dtype: DType) -> Tensor<'_> {
        self.fill(value, [], dtype)
    }

    /// A tensor of equal elements.
    #[track_caller]
    pub fn fill(
        &self,
        value: f64,
        dims: impl IntoIterator<Item = Dimension>,
        dtype: DType,
    ) -> Tensor<'_> {
        let Some(shape) = self.shape("fill", dims) else { return self.poison() };
        self.apply1(Fill::new(value, TensorType::new(shape, dtype)), &[])
    }

    /// A tensor of known elements; `dims` name the array's dims in order.
    #[track_caller]
    pub fn constant(
        &self,
        array: impl Into<Array>,
        dims: impl IntoIterator<Item = Dimension>,
    ) -> Tensor<'_> {
        let Some(shape) = self.shape("constant", dims) else { return self.poison() };
        let array = array.into();
        if array.shape() != shape.sizes() {
            let message = format!("an array of shape {:?} cannot be {shape}", array.shape());
            self.record("constant", message);
            return self.poison();
        }
        self.apply1(Constant::new(array, shape), &[])
    }
}
