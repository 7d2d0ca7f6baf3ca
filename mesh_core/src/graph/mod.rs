//! The graph: what the user means, over global shapes and named dims.
//!
//! Nodes hold any [`Op`]; building runs nothing and never fails at the call. A refused shape is
//! recorded with the caller's line and yields a *poisoned* tensor, whose users stay silent;
//! [`Graph::check`] and [`Graph::lower`](Graph::lower) report every error at once.

mod algebra;
mod block;
mod custom;
mod data;
mod error;
mod function;
mod gradient;
mod initializer;
mod inspect;
mod loops;
mod op;
mod provenance;
mod recompute;
mod sources;
pub(crate) mod structural;
mod tensor;
mod unique;
mod variable;
mod view;

pub use algebra::Algebra;
pub use data::{Key, OperationId, TensorId};
pub use error::{Issue, OpError, Report};
pub use function::Function;
pub use initializer::{Fan, Initializer};
pub use inspect::{FunctionView, Kind, LoopView, OperationView};
pub use op::{DynOp, GradCx, Op, Signature, TensorType};
pub use provenance::Provenance;
pub use tensor::Tensor;
pub use unique::Scope;
pub use variable::{Update, Variable};

pub(crate) use block::BlockId;
pub(crate) use data::{Data, Operation};
pub(crate) use function::FunctionNode;
pub(crate) use tensor::TensorNode;
pub(crate) use variable::VariableNode;

use crate::names::{DimName, Dimension, Shape};
use data::Context;
use std::cell::{Ref, RefCell};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// What structural ops ask for besides an op's inputs.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    /// The outputs' layout key, if not that of the inputs.
    key: Option<Key>,
    /// The key of each output, where they differ.
    keys: Vec<Option<Key>>,
    /// The operation's full name, if not the op's name under the current scopes.
    name: Option<String>,
}

impl Asked {
    pub(crate) fn key(key: Option<Key>) -> Self {
        Self { key, ..Self::default() }
    }

    pub(crate) fn keys(keys: Vec<Option<Key>>) -> Self {
        Self { keys, ..Self::default() }
    }

    pub(crate) fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
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

    /// Whether nobody has been told of a warning yet; from here on somebody has.
    pub(crate) fn is_news(&self, warning: &str) -> bool {
        self.data.borrow_mut().reported.insert(warning.to_owned())
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
        self.apply_as(op, inputs, count, Asked::default())
    }

    /// As `apply`, with what structural ops ask for besides.
    #[track_caller]
    pub(crate) fn apply_as<'g>(
        &'g self,
        op: impl Op,
        inputs: &[Tensor<'g>],
        count: usize,
        asked: Asked,
    ) -> Vec<Tensor<'g>> {
        let at = self.provenance(Location::caller());
        let name = asked.name.clone().unwrap_or_else(|| Op::name(&op).to_owned());
        match self.try_apply(Arc::new(op), inputs, count, asked, &at) {
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
        op: Arc<dyn DynOp>,
        inputs: &[Tensor<'g>],
        count: usize,
        asked: Asked,
        at: &Provenance,
    ) -> Result<Option<Vec<Tensor<'g>>>, OpError> {
        if inputs.iter().any(|t| !std::ptr::eq(t.graph(), self)) {
            return Err(OpError::new("an input belongs to another graph"));
        }
        if inputs.iter().any(|t| t.is_poisoned()) {
            return Ok(None);
        }
        let inputs = inputs.iter().map(|&t| self.reach(t)).collect::<Result<Vec<_>, _>>()?;
        let types: Vec<_> = inputs.iter().map(|t| t.tensor_type()).collect();
        let outputs = op.outputs(&types)?;
        if outputs.len() != count {
            return Err(OpError::new(format!("{} outputs, {count} expected", outputs.len())));
        }
        let key = match (asked.key, &asked.keys[..]) {
            (None, []) => self.common_key(&inputs)?,
            (asked, _) => asked,
        };
        let data = &mut *self.data.borrow_mut();
        let id = OperationId(data.operations.len() as u32);
        let mut ids = Vec::new();
        for (i, ty) in outputs.into_iter().enumerate() {
            let key = asked.keys.get(i).copied().unwrap_or(key);
            // Scalars fit any key, so they have none.
            let key = if ty.shape.is_scalar() { None } else { Some(key.unwrap_or(Key::COMPUTE)) };
            ids.push(TensorId(data.tensors.len() as u32));
            data.tensors.push(TensorNode { ty, producer: Some((id, i)), key });
        }
        let name = match asked.name {
            Some(full) => data.names.unique_full(full),
            None => data.names.unique(op.name()),
        };
        data.operations.push(Operation {
            name,
            op,
            inputs: inputs.iter().map(|t| t.id()).collect(),
            outputs: ids.clone(),
            at: at.clone(),
            region: data.context.last().map_or(0, |c| c.region),
            block: data.open.last().copied(),
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

    /// Every dim name of the graph.
    pub(crate) fn dim_names(&self) -> Vec<DimName> {
        let data = self.data();
        let mut names: Vec<_> = data.tensors.iter().flat_map(|t| t.ty.shape.names()).collect();
        names.sort();
        names.dedup();
        names
    }
}
