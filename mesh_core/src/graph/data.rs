//! What a graph holds.

use super::block::{BlockId, BlockNode};
use super::{DynOp, FunctionNode, Issue, Provenance, TensorNode, VariableNode, unique};
use crate::names::RuleSet;
use crate::program::VariableId;
use indexmap::{IndexMap, IndexSet};
use std::fmt;
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
    /// The loop's body it is in.
    pub(crate) block: Option<BlockId>,
}

/// Who asks for the operations that are being made, when that is not the direct caller.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) at: Provenance,
    pub(super) region: u32,
}

#[derive(Default)]
pub(crate) struct Data {
    pub(crate) operations: Vec<Operation>,
    pub(crate) tensors: Vec<TensorNode>,
    pub(crate) variables: Vec<VariableNode>,
    pub(crate) functions: IndexMap<String, FunctionNode>,
    pub(crate) inputs: IndexMap<String, TensorId>,
    pub(crate) issues: Vec<Issue>,
    pub(super) warnings: Vec<Issue>,
    /// Texts of warnings that have been reported.
    pub(super) reported: IndexSet<String>,
    pub(super) names: unique::Names,
    pub(super) context: Vec<Context>,
    pub(super) regions: u32,
    pub(super) step: Option<VariableId>,
    pub(crate) blocks: Vec<BlockNode>,
    /// Blocks under construction, the innermost last.
    pub(super) open: Vec<BlockId>,
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
}
