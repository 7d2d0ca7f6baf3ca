//! Tensors without inputs: fed, or known when the graph is built.

use super::apply::Asked;
use super::data::{Graph, Structural, Tensor};
use super::ids::Key;
use super::nodes::{Fill, Same};
use super::types::TensorType;
use crate::array::Array;
use crate::names::{DType, Dimension};
use std::sync::Arc;

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
        let ty = TensorType::new(shape, dtype);
        let op = Structural::Input { name: name.to_owned(), ty };
        let _outside = self.outside(0);
        let tensor = self.apply_as(op, &[], 1, Asked::default().named(name)).outputs[0];
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
        self.filled(value, TensorType::new(shape, dtype), None)
    }

    /// A tensor of equal elements, under these rules.
    #[track_caller]
    pub(super) fn filled(&self, value: f64, ty: TensorType, key: Option<Key>) -> Tensor<'_> {
        let op = Structural::Fill(Fill::new(value, ty));
        self.apply_as(op, &[], 1, Asked::key(key)).outputs[0]
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
        let op = Structural::Constant { data: Same(Arc::new(array)), shape };
        self.apply_as(op, &[], 1, Asked::default()).outputs[0]
    }
}
