//! Reading a graph from outside: for evaluators, pictures and tests.

use super::structural::{
    Barrier, Constant, Custom, Fill, Input, Loop, Param, Probe, Read, Recompute, Relayout,
    StopGradient, Update, UpdateKind,
};
use super::{DynOp, Graph, OperationId, Provenance, TensorId, TensorType};
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
    /// What a round of a loop is given.
    Param,
    /// Sets (0), adds to (1) or subtracts from (-1) a variable.
    Update(VariableId, i8),
    /// An op from outside core.
    Other,
}

/// A loop and its body, whose operations stand among those of the graph.
///
/// The loop's inputs are what the first round carries, what is sliced, what is captured, and whether
/// there is a first round if that is not certain; its outputs, what the last round carries and what
/// is stacked.
#[derive(Clone, Debug)]
pub struct LoopView {
    /// Number of rounds, or the most.
    pub rounds: usize,
    /// Whether positions fall.
    pub reverse: bool,
    /// Whether the last result says if there is another round.
    pub conditional: bool,
    /// Given to a round.
    pub carried: Vec<TensorId>,
    /// Given to a round: slices along the first dim.
    pub sliced: Vec<TensorId>,
    /// Given to a round: its position.
    pub position: TensorId,
    /// Made elsewhere and read by rounds.
    pub captured: Vec<TensorId>,
    /// What a round makes: to be carried, to be stacked, and if conditional whether to go on.
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
        let view = |(i, operation): (usize, &super::Operation)| OperationView {
            id: OperationId(i as u32),
            name: operation.name.clone(),
            kind: kind(&data, &*operation.op),
            op: operation.op.clone(),
            inputs: operation.inputs.clone(),
            outputs: operation.outputs.clone(),
            at: operation.at.clone(),
        };
        data.operations.iter().enumerate().map(view).collect()
    }

    /// Every function, in the order of declaration.
    pub fn functions(&self) -> Vec<FunctionView> {
        let data = self.data();
        let view = |(name, node): (&String, &super::FunctionNode)| FunctionView {
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

fn kind(data: &super::Data, op: &dyn DynOp) -> Kind {
    let any = op.as_any();
    if let Some(input) = any.downcast_ref::<Input>() {
        Kind::Input(input.name.clone())
    } else if let Some(fill) = any.downcast_ref::<Fill>() {
        Kind::Fill(fill.value().value())
    } else if let Some(constant) = any.downcast_ref::<Constant>() {
        Kind::Constant(constant.data().clone())
    } else if let Some(read) = any.downcast_ref::<Read>() {
        Kind::Read(read.variable)
    } else if let Some(l) = any.downcast_ref::<Loop>() {
        let block = &data.blocks[l.block.index()];
        Kind::Loop(LoopView {
            rounds: l.rounds.size,
            reverse: l.reverse,
            conditional: l.conditional,
            carried: block.carried.clone(),
            sliced: block.sliced.clone(),
            position: block.position,
            captured: block.captured.clone(),
            results: block.results.iter().chain(&l.saved).copied().collect(),
        })
    } else if any.is::<Param>() {
        Kind::Param
    } else if any.is::<Relayout>()
        || any.is::<StopGradient>()
        || any.is::<Barrier>()
        || any.is::<Custom>()
        || any.is::<Recompute>()
        || any.is::<Probe>()
    {
        Kind::Identity
    } else if let Some(update) = any.downcast_ref::<Update>() {
        let sign = match update.kind {
            UpdateKind::Assign => 0,
            UpdateKind::Add => 1,
            UpdateKind::Sub => -1,
        };
        Kind::Update(update.variable, sign)
    } else {
        Kind::Other
    }
}
