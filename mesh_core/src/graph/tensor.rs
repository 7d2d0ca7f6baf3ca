//! Handles to tensors.

use super::{Asked, Graph, Key, OperationId, TensorId, TensorType, structural};
use crate::names::{DType, Dimension, Shape};
use std::fmt;

pub(crate) struct TensorNode {
    pub(crate) ty: TensorType,
    /// The operation and which of its outputs; `None` for a poisoned tensor.
    pub(crate) producer: Option<(OperationId, usize)>,
    /// `None` fits any key: scalars.
    pub(crate) key: Option<Key>,
}

/// A tensor of a graph: a handle, free to copy.
#[derive(Clone, Copy)]
pub struct Tensor<'g> {
    graph: &'g Graph,
    id: TensorId,
}

impl<'g> Tensor<'g> {
    pub(crate) fn new(graph: &'g Graph, id: TensorId) -> Self {
        Self { graph, id }
    }

    /// The graph it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its number in the graph.
    pub fn id(self) -> TensorId {
        self.id
    }

    /// Dims in declared order, global sizes.
    pub fn shape(self) -> Shape {
        self.tensor_type().shape
    }

    /// Element type.
    pub fn dtype(self) -> DType {
        self.graph.data().tensors[self.id.index()].ty.dtype
    }

    /// Shape and element type.
    pub fn tensor_type(self) -> TensorType {
        self.graph.data().tensors[self.id.index()].ty.clone()
    }

    /// Whether an error upstream left it without meaning; the graph has recorded that error.
    pub fn is_poisoned(self) -> bool {
        self.graph.data().tensors[self.id.index()].producer.is_none()
    }

    /// A tensor for a place where an error has been recorded.
    pub fn poisoned(self) -> Self {
        self.graph.poison()
    }

    /// The layout key; `None` for scalars, which fit any.
    pub fn key(self) -> Option<Key> {
        self.graph.data().tensors[self.id.index()].key
    }

    /// The same tensor under other rules; what has to move is decided by its users' demands.
    #[track_caller]
    pub fn relayout(self, key: Key) -> Self {
        if self.key().is_none_or(|own| own == key) {
            return self;
        }
        self.graph.apply_as(structural::Relayout, &[self], 1, Asked::key(Some(key)))[0]
    }

    /// The same tensor; gradients stop here.
    #[track_caller]
    pub fn stop_gradient(self) -> Self {
        self.graph.apply1(structural::StopGradient, &[self])
    }

    /// A tensor of its shape, dtype and layout key, filled with a number.
    #[track_caller]
    pub fn fill_like(self, value: f64) -> Self {
        if self.is_poisoned() {
            return self;
        }
        let op = structural::Fill::new(value, self.tensor_type());
        self.graph.apply_as(op, &[], 1, Asked::key(self.key()))[0]
    }

    /// A number of its dtype, without dims.
    #[track_caller]
    pub fn scalar_like(self, value: f64) -> Self {
        if self.is_poisoned() { self } else { self.graph.scalar(value, self.dtype()) }
    }

    /// The dim of a name, if it has one.
    pub fn dim(self, name: &str) -> Option<Dimension> {
        self.shape().get(name.into())
    }

    /// `f(self)`, for chains: `x.then(gelu)`.
    pub fn then<T>(self, f: impl FnOnce(Self) -> T) -> T {
        f(self)
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.graph.data();
        let name = data.tensor_name(self.id);
        write!(f, "{name}: {}", data.tensors[self.id.index()].ty)
    }
}
