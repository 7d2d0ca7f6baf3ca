//! Functions: what is fed, fetched and updated in one call.

use super::data::{Graph, Structural, Tensor};
use super::ids::{GraphId, OperationId, RegionId};
use super::nodes::FunctionNode;
use super::variable::Update;
use crate::names::DType;
use crate::program::VariableId;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A function of a graph with `I` feeds and `F` fetches; borrows nothing. It calls modules of its own
/// graph only.
#[derive(Clone, PartialEq, Eq)]
pub struct Function<const I: usize, const F: usize> {
    graph: GraphId,
    name: Arc<str>,
}

impl<const I: usize, const F: usize> Function<I, F> {
    /// Its unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The handle of a function of a graph's modules, or of modules of no graph.
    pub(crate) fn of(graph: GraphId, name: &str) -> Self {
        Self { graph, name: name.into() }
    }

    /// The graph it was declared in.
    pub(crate) fn graph(&self) -> GraphId {
        self.graph
    }
}

impl<const I: usize, const F: usize> fmt::Debug for Function<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({I} feeds) -> {F} fetches", self.name)
    }
}

impl Graph {
    /// Declares a function: feeds `inputs`, returns `fetches`, and makes all `updates` together
    /// when it ends. If it updates a trainable variable, [`step`](Self::step) advances by one.
    ///
    /// [`Tensor::named`] says what a fetch is called.
    ///
    /// Recorded as errors: an input that is none, or is missing from the list; two updates of one
    /// variable; two fetches that were given one name; a name in use.
    #[track_caller]
    pub fn function<'g, const I: usize, const F: usize>(
        &'g self,
        name: &str,
        inputs: [Tensor<'g>; I],
        fetches: [Tensor<'g>; F],
        updates: impl IntoIterator<Item = Update<'g>>,
    ) -> Function<I, F> {
        self.declare_function(name, &inputs, &fetches, updates.into_iter().collect());
        Function { graph: self.identity(), name: name.into() }
    }

    /// As [`function`](Self::function), for numbers of feeds and fetches known only at run time;
    /// called by name.
    #[track_caller]
    pub fn declare_function<'g>(
        &'g self,
        name: &str,
        inputs: &[Tensor<'g>],
        fetches: &[Tensor<'g>],
        mut updates: Vec<Update<'g>>,
    ) {
        let first = self.data().functions.get(name).map(|f| f.at.clone());
        if let Some(first) = first {
            self.record(name, format!("a function of this name exists already, from {first}"));
            return;
        }
        let foreign = inputs.iter().chain(fetches).any(|t| !std::ptr::eq(t.graph(), self))
            || updates.iter().any(|u| !std::ptr::eq(u.graph, self));
        if foreign {
            self.record(name, "an input, fetch or update belongs to another graph");
            return;
        }
        let inside = fetches.iter().find(|t| {
            self.data().region_of(t.id()).is_some_and(|region| region != RegionId::OUTERMOST)
        });
        if let Some(inside) = inside {
            let message = format!("{inside:?} is made in a loop's body; return it from the body");
            self.record(name, message);
            return;
        }
        let trains = updates.iter().any(|u| self.data().variables[u.variable.index()].trainable);
        let step = trains.then(|| self.step_variable());
        if let Some(step) = step.filter(|step| updates.iter().all(|u| u.variable != step.id())) {
            updates.push(step.assign_add(self.scalar(1.0, DType::I32)));
        }
        let node = FunctionNode {
            inputs: inputs.iter().map(|t| t.id()).collect(),
            fetches: fetches.iter().map(|t| t.id()).collect(),
            updates: updates.iter().filter_map(|u| u.operation).collect(),
            at: self.provenance(Location::caller()),
        };
        self.check_updates(name, &updates);
        self.check_inputs(name, &node);
        self.check_fetches(name, fetches);
        self.data.borrow_mut().functions.insert(name.to_owned(), node);
    }

    #[track_caller]
    fn check_updates(&self, function: &str, updates: &[Update<'_>]) {
        let mut seen: Vec<(VariableId, OperationId)> = Vec::new();
        for update in updates {
            let Some(operation) = update.operation else { continue };
            let first = seen.iter().find(|(variable, _)| *variable == update.variable);
            if let Some(&(_, first)) = first {
                let data = self.data();
                let message = format!(
                    "variable {} is updated twice in one call: at {} and at {}",
                    data.variables[update.variable.index()].name,
                    data.operations[first.index()].at,
                    data.operations[operation.index()].at
                );
                drop(data);
                self.record(function, message);
            }
            seen.push((update.variable, operation));
        }
    }

    #[track_caller]
    fn check_fetches(&self, function: &str, fetches: &[Tensor<'_>]) {
        let named = |i: usize| self.data().tensors[fetches[i].id().index()].label.clone();
        let same = |&i: &usize| {
            let label = named(i);
            label.is_some()
                && (0..i).any(|j| fetches[j].id() != fetches[i].id() && named(j) == label)
        };
        if let Some(twice) = (0..fetches.len()).find(same).and_then(named) {
            self.record(function, format!("two of its fetches are named {twice}; rename one"));
        }
    }

    #[track_caller]
    fn check_inputs(&self, function: &str, node: &FunctionNode) {
        let mut messages = Vec::new();
        let data = self.data();
        let mut listed: Vec<OperationId> = Vec::new();
        for &input in &node.inputs {
            let Some((operation, _)) = data.tensors[input.index()].producer else { continue };
            let op = &data.operations[operation.index()];
            if !matches!(op.structural(), Some(Structural::Input { .. })) {
                messages.push(format!("{} is not an input of the graph", op.name));
            }
            if listed.contains(&operation) {
                messages.push(format!("{} is listed twice", op.name));
            }
            listed.push(operation);
        }
        for id in data.reachable(node) {
            let op = &data.operations[id.index()];
            let Some(Structural::Input { name, .. }) = op.structural() else { continue };
            if !listed.contains(&id) {
                messages.push(format!(
                    "input {name} ({}) is needed but not among the function's inputs",
                    op.at
                ));
            }
        }
        drop(data);
        for message in messages {
            self.record(function, message);
        }
    }
}
