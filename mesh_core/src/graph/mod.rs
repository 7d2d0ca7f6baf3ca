//! The graph: what the user means, over global shapes and named dims.
//!
//! Nodes hold any [`Op`]; building runs nothing and never fails at the call. A refused shape is
//! recorded with the caller's line and yields a *poisoned* tensor, whose users stay silent;
//! [`Graph::check`] and [`Graph::lower`](Graph::lower) report every error at once.

mod algebra;
mod error;
mod function;
mod gradient;
mod initializer;
mod inspect;
mod op;
mod provenance;
mod structural;
mod tensor;
mod unique;
mod variable;
mod view;

pub use algebra::Algebra;
pub use error::{Issue, OpError, Report};
pub use function::Function;
pub use initializer::{Fan, Initializer};
pub use inspect::{FunctionView, Kind, OperationView};
pub use op::{DynOp, GradCx, Op, Signature, TensorType};
pub use provenance::Provenance;
pub use tensor::Tensor;
pub use unique::Scope;
pub use variable::{Update, Variable};

pub(crate) use function::FunctionNode;
pub(crate) use tensor::TensorNode;
pub(crate) use variable::VariableNode;

use crate::names::{DType, DimName, Dimension, RuleSet, Shape};
use crate::program::VariableId;
use indexmap::IndexMap;
use std::cell::{Ref, RefCell};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Number of a tensor in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub(crate) u32);

/// Number of an operation in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub(crate) u32);

impl fmt::Debug for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op{}", self.0)
    }
}

impl TensorId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl OperationId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which rules lay a tensor out: a rule set and, for parameters and slots, whose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// The rule set.
    pub set: RuleSet,
    /// The trainable variable whose `*` dims count.
    pub variable: Option<VariableId>,
}

impl Key {
    /// Where models compute.
    pub const COMPUTE: Self = Self { set: RuleSet::Compute, variable: None };
}

/// A node: an op applied to tensors.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) op: Arc<dyn DynOp>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
    pub(crate) name: String,
    pub(crate) at: Provenance,
    /// Counts gradient passes: what is gathered in one region is not kept for another.
    pub(crate) region: u32,
}

/// Who asks for the operations that are being made, when that is not the direct caller.
#[derive(Clone, Debug)]
struct Context {
    at: Provenance,
    region: u32,
}

#[derive(Default)]
pub(crate) struct Data {
    pub(crate) operations: Vec<Operation>,
    pub(crate) tensors: Vec<TensorNode>,
    pub(crate) variables: Vec<VariableNode>,
    pub(crate) functions: IndexMap<String, FunctionNode>,
    pub(crate) inputs: IndexMap<String, TensorId>,
    pub(crate) issues: Vec<Issue>,
    warnings: Vec<Issue>,
    names: unique::Names,
    context: Vec<Context>,
    regions: u32,
    step: Option<VariableId>,
}

/// A model: operations on named tensors, variables, functions.
pub struct Graph {
    data: RefCell<Data>,
    algebra: &'static dyn Algebra,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data.borrow();
        write!(f, "Graph({} operations, {} variables)", data.operations.len(), data.variables.len())
    }
}

impl Graph {
    /// An empty graph whose operators mean what `algebra` says. Most users call
    /// `mesh_ops::graph()`.
    pub fn new(algebra: &'static dyn Algebra) -> Self {
        Self { data: RefCell::default(), algebra }
    }

    pub(crate) fn algebra(&self) -> &'static dyn Algebra {
        self.algebra
    }

    pub(crate) fn data(&self) -> Ref<'_, Data> {
        self.data.borrow()
    }

    /// All errors recorded so far, or nothing.
    pub fn check(&self) -> Result<(), Report> {
        let issues = self.data().issues.clone();
        if issues.is_empty() { Ok(()) } else { Err(Report { issues }) }
    }

    /// Records an error on the caller's line.
    #[track_caller]
    pub fn record(&self, subject: &str, message: impl Into<String>) {
        let at = self.provenance(Location::caller());
        self.push_issue(subject, message.into(), at);
    }

    fn push_issue(&self, subject: &str, message: String, at: Provenance) {
        let issue = Issue { subject: subject.to_owned(), message, at: Some(at) };
        self.data.borrow_mut().issues.push(issue);
    }

    fn provenance(&self, location: &'static Location<'static>) -> Provenance {
        match self.data().context.last() {
            Some(context) => context.at.clone(),
            None => Provenance { location, note: None },
        }
    }

    /// Records on the caller's line something that is legal but hardly meant.
    #[track_caller]
    pub fn warn(&self, subject: &str, message: impl Into<String>) {
        let at = Some(self.provenance(Location::caller()));
        let issue = Issue { subject: subject.to_owned(), message: message.into(), at };
        self.data.borrow_mut().warnings.push(issue);
    }

    /// What has been warned of so far.
    pub fn warnings(&self) -> Vec<Issue> {
        self.data().warnings.clone()
    }

    /// Runs `build` on behalf of the caller's line: operations it makes carry that line and
    /// `note`, and form a use region of their own (what they gather out of variables is not kept
    /// for others).
    #[track_caller]
    pub fn on_behalf<T>(&self, note: &str, build: impl FnOnce() -> T) -> T {
        let location = self.provenance(Location::caller()).location;
        let region = self.new_region();
        self.within(Provenance { location, note: Some(note.into()) }, region, build)
    }

    fn within<T>(&self, at: Provenance, region: u32, build: impl FnOnce() -> T) -> T {
        self.data.borrow_mut().context.push(Context { at, region });
        let result = build();
        self.data.borrow_mut().context.pop();
        result
    }

    fn new_region(&self) -> u32 {
        let mut data = self.data.borrow_mut();
        data.regions += 1;
        data.regions
    }

    /// Applies an op with one output. A refusal is recorded with the caller's line and yields a
    /// poisoned tensor.
    #[track_caller]
    pub fn apply1<'g>(&'g self, op: impl Op, inputs: &[Tensor<'g>]) -> Tensor<'g> {
        self.apply(op, inputs, 1)[0]
    }

    /// Applies an op with `count` outputs; see [`apply1`](Self::apply1).
    #[track_caller]
    pub fn apply<'g>(
        &'g self,
        op: impl Op,
        inputs: &[Tensor<'g>],
        count: usize,
    ) -> Vec<Tensor<'g>> {
        self.apply_keyed(op, inputs, count, None)
    }

    /// As `apply`; `key` overrides the outputs' layout key.
    #[track_caller]
    pub(crate) fn apply_keyed<'g>(
        &'g self,
        op: impl Op,
        inputs: &[Tensor<'g>],
        count: usize,
        key: Option<Key>,
    ) -> Vec<Tensor<'g>> {
        let at = self.provenance(Location::caller());
        let name = Op::label(&op);
        match self.try_apply(op, inputs, count, key, &at) {
            Ok(Some(outputs)) => outputs,
            refused => {
                if let Err(error) = refused {
                    self.push_issue(&name, error.to_string(), at);
                }
                (0..count).map(|_| self.poison()).collect()
            }
        }
    }

    /// `None` when an input is poisoned: its error is on record already.
    fn try_apply<'g>(
        &'g self,
        op: impl Op,
        inputs: &[Tensor<'g>],
        count: usize,
        key: Option<Key>,
        at: &Provenance,
    ) -> Result<Option<Vec<Tensor<'g>>>, OpError> {
        if inputs.iter().any(|t| !std::ptr::eq(t.graph(), self)) {
            return Err(OpError::new("an input belongs to another graph"));
        }
        if inputs.iter().any(|t| t.is_poisoned()) {
            return Ok(None);
        }
        let types: Vec<_> = inputs.iter().map(|t| t.tensor_type()).collect();
        let outputs = op.outputs(&types)?;
        if outputs.len() != count {
            return Err(OpError::new(format!("{} outputs, {count} expected", outputs.len())));
        }
        let inherited = self.common_key(inputs)?;
        let key = key.or(inherited);
        let data = &mut *self.data.borrow_mut();
        let id = OperationId(data.operations.len() as u32);
        let mut ids = Vec::new();
        for (i, ty) in outputs.into_iter().enumerate() {
            // Scalars fit any key, so they have none.
            let key = if ty.shape.is_scalar() { None } else { Some(key.unwrap_or(Key::COMPUTE)) };
            ids.push(TensorId(data.tensors.len() as u32));
            data.tensors.push(TensorNode { ty, producer: Some((id, i)), key });
        }
        data.operations.push(Operation {
            name: data.names.unique(&Op::label(&op)),
            op: Arc::new(op),
            inputs: inputs.iter().map(|t| t.id()).collect(),
            outputs: ids.clone(),
            at: at.clone(),
            region: data.context.last().map_or(0, |c| c.region),
        });
        Ok(Some(ids.into_iter().map(|id| Tensor::new(self, id)).collect()))
    }

    /// The one layout key of the inputs that are not scalars.
    fn common_key(&self, inputs: &[Tensor<'_>]) -> Result<Option<Key>, OpError> {
        let data = self.data();
        let mut found: Option<(Key, TensorId)> = None;
        for input in inputs {
            let Some(key) = data.tensors[input.id().index()].key else { continue };
            match found {
                None => found = Some((key, input.id())),
                Some((first, other)) if first != key => {
                    return Err(OpError::new(format!(
                        "inputs lie under different rules: {} and {}; relayout one of them",
                        data.key_text(first, other),
                        data.key_text(key, input.id())
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(found.map(|(key, _)| key))
    }

    fn poison(&self) -> Tensor<'_> {
        let mut data = self.data.borrow_mut();
        let id = TensorId(data.tensors.len() as u32);
        data.tensors.push(TensorNode { ty: TensorType::default(), producer: None, key: None });
        drop(data);
        Tensor::new(self, id)
    }

    /// A shape out of dims; a bad one is recorded on the caller's line.
    #[track_caller]
    pub(crate) fn shape(
        &self,
        subject: &str,
        dims: impl IntoIterator<Item = Dimension>,
    ) -> Option<Shape> {
        match Shape::new(dims) {
            Ok(shape) => Some(shape),
            Err(error) => {
                self.record(subject, error.to_string());
                None
            }
        }
    }

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
        let op = structural::Input { name: name.to_owned(), ty: TensorType::new(shape, dtype) };
        let tensor = self.apply1(op, &[]);
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
        self.apply1(structural::Fill::new(value, TensorType::new(shape, dtype)), &[])
    }

    /// A tensor of known elements; `dims` name the array's dims in order.
    #[track_caller]
    pub fn constant(
        &self,
        array: impl Into<crate::array::Array>,
        dims: impl IntoIterator<Item = Dimension>,
    ) -> Tensor<'_> {
        let Some(shape) = self.shape("constant", dims) else { return self.poison() };
        let array = array.into();
        if array.shape() != shape.sizes() {
            let message = format!("an array of shape {:?} cannot be {shape}", array.shape());
            self.record("constant", message);
            return self.poison();
        }
        self.apply1(structural::Constant::new(array, shape), &[])
    }

    /// Every dim name of the graph.
    pub(crate) fn dim_names(&self) -> Vec<DimName> {
        let data = self.data();
        let mut names: Vec<_> = data.tensors.iter().flat_map(|t| t.ty.shape.names()).collect();
        names.sort();
        names.dedup();
        names
    }
}

impl Data {
    fn key_text(&self, key: Key, tensor: TensorId) -> String {
        let of = |id: VariableId| self.variables[id.index()].name.as_str();
        let rules = match (key.set, key.variable) {
            (RuleSet::Compute, _) | (_, None) => "compute rules".to_owned(),
            (RuleSet::Params, Some(v)) => format!("params/ rules of {}", of(v)),
            (RuleSet::Slots, Some(v)) => format!("slots/ rules of {}", of(v)),
        };
        let (name, at) = self.tensor_origin(tensor);
        format!("{name} ({rules}, {at})")
    }

    /// Name and line of the operation that makes a tensor.
    pub(crate) fn tensor_origin(&self, tensor: TensorId) -> (String, String) {
        match self.tensors[tensor.index()].producer {
            None => ("poisoned tensor".to_owned(), String::new()),
            Some((op, output)) => {
                let operation = &self.operations[op.index()];
                let mut name = operation.name.clone();
                if operation.outputs.len() > 1 {
                    name = format!("{name}.{output}");
                }
                (name, operation.at.to_string())
            }
        }
    }
}
