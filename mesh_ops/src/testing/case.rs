//! What to check: a graph around an op, and what to feed it.

use super::{Dense, Fill, Meaning};
use mesh_core::graph::{Graph, Tensor, TensorType};
use mesh_core::names::DType;
use std::fmt;
use std::rc::Rc;

type Build = dyn for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Vec<Tensor<'g>>;

/// An input of a case.
#[derive(Clone, Debug)]
pub struct Given {
    /// Under which it is fed.
    pub name: String,
    /// Its dims, as in `batch:4;hidden:6`.
    pub shape: String,
    /// What its elements are of.
    pub dtype: DType,
    /// What they are.
    pub fill: Fill,
}

/// A graph to build around an op, and what to feed it. See [`Case::check`].
pub struct Case {
    pub(super) name: String,
    pub(super) build: Box<Build>,
    pub(super) inputs: Vec<Given>,
    pub(super) exact: bool,
    pub(super) gradient: bool,
    pub(super) meshes: Option<Vec<String>>,
    pub(super) meanings: Vec<(String, Meaning)>,
    /// What it computes as a whole.
    pub(super) whole: Option<Meaning>,
    /// Whether it is of one operation out of another case.
    pub(super) alone: bool,
    pub(super) function: String,
    pub(super) composed: bool,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.name, self.inputs)
    }
}

impl Case {
    /// A case that computes one tensor from its inputs, in the order in which those are added.
    pub fn new(
        name: &str,
        build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Tensor<'g> + 'static,
    ) -> Self {
        Self::several(name, move |g, x| vec![build(g, x)])
    }

    /// A case that computes several tensors.
    pub fn several(
        name: &str,
        build: impl for<'g> Fn(&'g Graph, &[Tensor<'g>]) -> Vec<Tensor<'g>> + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            build: Box::new(build),
            inputs: Vec::new(),
            exact: false,
            gradient: true,
            meshes: None,
            meanings: Vec::new(),
            whole: None,
            alone: false,
            function: name.split(':').next().unwrap_or_default().to_owned(),
            composed: false,
        }
    }

    /// An input: its dims as in `batch:4;hidden:6`, and what its elements are.
    pub fn input(mut self, name: &str, shape: &str, dtype: DType, fill: Fill) -> Self {
        let (name, shape) = (name.to_owned(), shape.to_owned());
        self.inputs.push(Given { name, shape, dtype, fill });
        self
    }

    /// Bell-shaped floats.
    pub fn normal(self, name: &str, shape: &str, dtype: DType) -> Self {
        self.input(name, shape, dtype, Fill::Normal)
    }

    /// Floats at least 1/4 away from 0.
    pub fn away_from_zero(self, name: &str, shape: &str, dtype: DType) -> Self {
        self.input(name, shape, dtype, Fill::AwayFromZero)
    }

    /// Small whole numbers.
    pub fn integers(self, name: &str, shape: &str, dtype: DType) -> Self {
        self.input(name, shape, dtype, Fill::Integers(-3, 3))
    }

    /// Truth values.
    pub fn bools(self, name: &str, shape: &str) -> Self {
        self.input(name, shape, DType::Bool, Fill::Integers(0, 1))
    }

    /// Positions along a dim of size `count`.
    pub fn indices(self, name: &str, shape: &str, count: i32) -> Self {
        self.input(name, shape, DType::I32, Fill::Integers(0, count - 1))
    }

    /// Whole numbers in, whole numbers out, forward and backward: every layout must agree bit for
    /// bit.
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Says that the op has no gradient.
    pub fn without_gradient(mut self) -> Self {
        self.gradient = false;
        self
    }

    /// Says that it is a case of this public function of its room; else it is of the one that its name
    /// begins with, up to a colon. What docs/ops.md says of a function is read off its cases.
    pub fn shows(mut self, function: &str) -> Self {
        self.function = function.to_owned();
        self
    }

    /// Says that its function is a composition of ops, although the room has an op of its own.
    pub fn composed(mut self) -> Self {
        self.composed = true;
        self
    }

    /// Its name in tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The function it is a case of, if the room has one of that name.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Whether it says that its function is a composition.
    pub fn is_composed(&self) -> bool {
        self.composed
    }

    /// Its inputs.
    pub fn inputs(&self) -> &[Given] {
        &self.inputs
    }

    /// What it computes of tensors in the place of its inputs.
    pub fn outputs<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        (self.build)(graph, inputs)
    }

    /// Says what the case computes as a whole, of its inputs and after them its variables in the order
    /// in which they are made: a tensor of this type. A composition is proven by that; its ops, each
    /// evaluated by its own meaning, would only repeat how it is composed.
    pub fn computes(self, whole: impl Fn(&[&Dense], &TensorType) -> Dense + 'static) -> Self {
        self.computes_all(move |x, types| types.iter().map(|ty| whole(x, ty)).collect())
    }

    /// As [`computes`](Self::computes), all tensors.
    pub fn computes_all(
        mut self,
        whole: impl Fn(&[&Dense], &[TensorType]) -> Vec<Dense> + 'static,
    ) -> Self {
        self.whole = Some(Rc::new(whole));
        self
    }

    /// Other meshes than [`MESHES`](super::MESHES). Inputs owe sums on those that are `a:2`, `a:4` or
    /// `a:2;b:2`.
    pub fn meshes(mut self, meshes: &[&str]) -> Self {
        self.meshes = Some(meshes.iter().map(|&mesh| mesh.to_owned()).collect());
        self
    }

    /// Says what an op of one output from outside `mesh_ops` means. Every op of the forward function
    /// needs a meaning; without one, an op of the gradient is compared with what one processor
    /// computes.
    pub fn meaning(
        self,
        op: &str,
        meaning: impl Fn(&[&Dense], &TensorType) -> Dense + 'static,
    ) -> Self {
        let one = move |x: &[&Dense], types: &[TensorType]| {
            types.iter().map(|ty| meaning(x, ty)).collect()
        };
        self.meaning_of_all(op, one)
    }

    /// Says what an op from outside `mesh_ops` means: all its outputs.
    pub fn meaning_of_all(
        mut self,
        op: &str,
        meaning: impl Fn(&[&Dense], &[TensorType]) -> Vec<Dense> + 'static,
    ) -> Self {
        self.meanings.push((op.to_owned(), Rc::new(meaning)));
        self
    }
}
