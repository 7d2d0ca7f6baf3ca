//! What tensors are asked for, and what they are called.

use super::apply::Asked;
use super::data::{Data, Graph, Operation, Structural, Tensor};
use super::ids::{Key, OperationId, TensorId};
use super::types::TensorType;
use crate::names::{DType, Dimension, RuleSet, Shape};
use crate::program::VariableId;
use std::fmt;

impl<'g> Tensor<'g> {
    pub(crate) fn new(graph: &'g Graph, id: TensorId) -> Self {
        Self { graph, id }
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

    /// The dim of a name, if it has one.
    pub fn dim(self, name: &str) -> Option<Dimension> {
        self.shape().get(name.into())
    }

    /// The same tensor under a name of the user's choice. A function returns it under that name, which is
    /// what [`Session::call_named`](crate::session::Session::call_named) gives, and errors call it so.
    ///
    /// Tensors of several functions may have one name. If a tensor is named again, the last name counts.
    ///
    /// ```
    /// # use mesh_core::{graph::Graph, names::{dim, DType}};
    /// # fn doc(g: &Graph) {
    /// let x = g.input("x", [dim("x", 3)], DType::F32);
    /// let y = (x * x).named("squares");
    /// assert_eq!(format!("{y:?}"), "squares: f32[x:3]");
    /// g.function("f", [x], [y], []); // returns `squares`
    /// # }
    /// ```
    pub fn named(self, name: &str) -> Self {
        self.graph.data.borrow_mut().tensors[self.id.index()].label = Some(name.to_owned());
        self
    }

    /// `f(self)`, for chains: `x.then(gelu)`.
    pub fn then<T>(self, f: impl FnOnce(Self) -> T) -> T {
        f(self)
    }

    /// The same tensor; gradients stop here.
    #[track_caller]
    pub fn stop_gradient(self) -> Self {
        self.graph.apply_as(Structural::StopGradient, &[self], 1, Asked::default()).outputs[0]
    }

    /// A tensor of its shape, dtype and layout key, filled with a number.
    #[track_caller]
    pub fn fill_like(self, value: f64) -> Self {
        if self.is_poisoned() {
            return self;
        }
        self.graph.filled(value, self.tensor_type(), self.key())
    }

    /// A number of its dtype, without dims.
    #[track_caller]
    pub fn scalar_like(self, value: f64) -> Self {
        if self.is_poisoned() { self } else { self.graph.scalar(value, self.dtype()) }
    }

    /// The graph it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its number in the graph.
    pub fn id(self) -> TensorId {
        self.id
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
        let asked = Asked::key(Some(key));
        self.graph.apply_as(Structural::Relayout, &[self], 1, asked).outputs[0]
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.graph.data();
        let label = data.tensors[self.id.index()].label.clone();
        let name = label.unwrap_or_else(|| data.tensor_name(self.id));
        write!(f, "{name}: {}", data.tensors[self.id.index()].ty)
    }
}

impl Data {
    pub(super) fn key_text(&self, key: Key, tensor: TensorId) -> String {
        let of = |id: VariableId| self.variables[id.index()].name.as_str();
        let rules = match (key.set, key.variable) {
            (RuleSet::Compute, _) | (_, None) => "compute rules".to_owned(),
            (RuleSet::Params, Some(v)) => format!("params/ rules of {}", of(v)),
            (RuleSet::Slots, Some(v)) => format!("slots/ rules of {}", of(v)),
        };
        let name = self.tensor_name(tensor);
        let at = self.producer(tensor).map(|(operation, _)| operation.at.to_string());
        format!("{name} ({rules}, {})", at.unwrap_or_default())
    }

    fn producer(&self, tensor: TensorId) -> Option<(&Operation, usize)> {
        let (operation, output) = self.tensors[tensor.index()].producer?;
        Some((&self.operations[operation.index()], output))
    }

    /// The name of the operation that makes a tensor, with which of its outputs, if it has several.
    pub(crate) fn tensor_name(&self, tensor: TensorId) -> String {
        match self.producer(tensor) {
            None => "poisoned tensor".to_owned(),
            Some((operation, output)) if operation.outputs.len() > 1 => {
                format!("{}.{output}", operation.name)
            }
            Some((operation, _)) => operation.name.clone(),
        }
    }

    /// What a fetch of a tensor is called: as the user says, or as it is shown.
    pub(crate) fn fetch_name(&self, tensor: TensorId) -> String {
        let label = self.tensors[tensor.index()].label.clone();
        label.unwrap_or_else(|| self.shown_name(tensor))
    }

    /// What a tensor is called where it is shown: by its operation, or as a probe says.
    pub(crate) fn shown_name(&self, tensor: TensorId) -> String {
        match self.producer(tensor).and_then(|(operation, _)| operation.structural()) {
            Some(Structural::Probe { label }) => label.clone(),
            _ => self.tensor_name(tensor),
        }
    }

    /// What probes among operations show.
    pub(crate) fn probed(&self, operations: &[OperationId]) -> impl Iterator<Item = TensorId> {
        let operations = operations.iter().map(|id| &self.operations[id.index()]);
        let probes =
            operations.filter(|o| matches!(o.structural(), Some(Structural::Probe { .. })));
        probes.flat_map(|operation| operation.outputs.iter().copied())
    }
}
