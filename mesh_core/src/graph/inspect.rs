//! Reading a graph from outside: for evaluators, pictures and tests.

use super::data::{Data, DynOp, Graph, OpKind, Operation, Structural};
use super::ids::{OperationId, TensorId};
use super::nodes::{Change, FunctionNode, Loop, Region};
use super::provenance::Provenance;
use super::types::TensorType;
use crate::array::Array;
use crate::program::VariableId;
use std::sync::Arc;

/// What an operation is, as far as core knows.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Fed under this name.
    Input(String),
    /// Equal elements.
    Fill(f64),
    /// Known elements.
    Constant(Arc<Array>),
    /// A variable at the call's start.
    Read(VariableId),
    /// Each output the input of its number, untouched: `relayout`, `stop_gradient`, a barrier.
    Identity,
    /// A loop.
    Loop(LoopView),
    /// What an iteration of a loop is given.
    Param,
    /// A variable's value, the first input, with the second added (1) or subtracted (-1).
    Changed(i8),
    /// Sets a variable.
    Update(VariableId),
    /// An op from outside core.
    Other,
}

/// A loop and its body, whose operations stand among those of the graph.
///
/// The loop's inputs are what the first iteration carries, what is sliced, what is captured, and whether
/// there is a first iteration if that is not certain; its outputs, what the last iteration carries and what
/// is stacked.
#[derive(Clone, Debug)]
pub struct LoopView {
    /// Number of iterations, or the most.
    pub iterations: usize,
    /// Whether positions fall.
    pub reverse: bool,
    /// Whether the last result says if there is another iteration.
    pub conditional: bool,
    /// Given to an iteration.
    pub carried: Vec<TensorId>,
    /// Given to an iteration: slices along the first dim.
    pub sliced: Vec<TensorId>,
    /// Given to an iteration: its position.
    pub position: TensorId,
    /// Made elsewhere and read by iterations.
    pub captured: Vec<TensorId>,
    /// What an iteration makes: to be carried, to be stacked, and if conditional whether to go on.
    pub results: Vec<TensorId>,
}

/// One operation of a graph.
#[derive(Clone, Debug)]
pub struct OperationView {
    /// Its number.
    pub id: OperationId,
    /// Its unique name.
    pub name: String,
    /// What core knows of it.
    pub kind: Kind,
    /// The op.
    pub op: Arc<dyn DynOp>,
    /// Inputs in argument order.
    pub inputs: Vec<TensorId>,
    /// Outputs in result order.
    pub outputs: Vec<TensorId>,
    /// The line that asked for it.
    pub at: Provenance,
}

/// One function of a graph.
#[derive(Clone, Debug)]
pub struct FunctionView {
    /// Its name.
    pub name: String,
    /// What is fed.
    pub inputs: Vec<TensorId>,
    /// What is returned.
    pub fetches: Vec<TensorId>,
    /// What is updated.
    pub updates: Vec<OperationId>,
}

impl Graph {
    /// Every operation; each refers to earlier ones only.
    pub fn operations(&self) -> Vec<OperationView> {
        let data = self.data();
        let view = |(i, operation): (usize, &Operation)| OperationView {
            id: OperationId(i as u32),
            name: operation.name.clone(),
            kind: kind(&data, &operation.op),
            op: operation.op.shared(),
            inputs: operation.inputs.clone(),
            outputs: operation.outputs.clone(),
            at: operation.at.clone(),
        };
        data.operations.iter().enumerate().map(view).collect()
    }

    /// Every function, in the order of declaration.
    pub fn functions(&self) -> Vec<FunctionView> {
        let data = self.data();
        let view = |(name, node): (&String, &FunctionNode)| FunctionView {
            name: name.clone(),
            inputs: node.inputs.clone(),
            fetches: node.fetches.clone(),
            updates: node.updates.clone(),
        };
        data.functions.iter().map(view).collect()
    }

    /// Shape and element type of a tensor.
    pub fn type_of(&self, tensor: TensorId) -> TensorType {
        self.data().tensors[tensor.index()].ty.clone()
    }

    /// Names of all variables, in the order of their numbers.
    pub fn variable_names(&self) -> Vec<String> {
        self.data().variables.iter().map(|v| v.name.clone()).collect()
    }
}

fn kind(data: &Data, op: &OpKind) -> Kind {
    let OpKind::Structural(op) = op else { return Kind::Other };
    match &**op {
        Structural::Input { name, .. } => Kind::Input(name.clone()),
        Structural::Fill(fill) => Kind::Fill(fill.value().value()),
        Structural::Constant { data, .. } => Kind::Constant(data.0.clone()),
        Structural::Read { variable, .. } => Kind::Read(*variable),
        Structural::Changed(Change::Add, _) => Kind::Changed(1),
        Structural::Changed(Change::Sub, _) => Kind::Changed(-1),
        Structural::Update(updated) => Kind::Update(updated.variable),
        Structural::Relayout
        | Structural::StopGradient
        | Structural::Barrier
        | Structural::Probe { .. }
        | Structural::Custom { .. }
        | Structural::Recompute { .. }
        | Structural::Reversible(_) => Kind::Identity,
        Structural::Loop(run) => view(data.region(run.region), run).map_or(Kind::Other, Kind::Loop),
        Structural::Param { .. } => Kind::Param,
    }
}

fn view(region: &Region, run: &Loop) -> Option<LoopView> {
    Some(LoopView {
        iterations: run.iterations.size,
        reverse: run.reverse,
        conditional: run.conditional,
        carried: region.carried.clone(),
        sliced: region.sliced.clone(),
        position: region.position?,
        captured: region.captured.clone(),
        results: region.results.iter().chain(&run.saved).copied().collect(),
    })
}
