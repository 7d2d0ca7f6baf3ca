//! Records that a graph keeps.

use super::ids::{Key, OperationId, RegionId, TensorId};
use super::initializer::Initializer;
use super::provenance::Provenance;
use super::types::TensorType;
use crate::names::{DType, Dimension, RuleSet};
use crate::program::{Scalar, VariableId};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(crate) struct TensorNode {
    pub(crate) ty: TensorType,
    /// The operation and which of its outputs; `None` for a poisoned tensor.
    pub(crate) producer: Option<(OperationId, usize)>,
    /// `None` fits any key: scalars.
    pub(crate) key: Option<Key>,
    /// What the user calls it; see `Tensor::named`.
    pub(super) label: Option<String>,
}

#[derive(Clone)]
pub(crate) struct VariableNode {
    pub(crate) name: String,
    pub(crate) ty: TensorType,
    pub(crate) initializer: Initializer,
    pub(crate) trainable: bool,
    /// The variable whose slot this is.
    pub(crate) slot_of: Option<VariableId>,
    pub(crate) at: Provenance,
    /// Its declaration was refused.
    pub(super) poisoned: bool,
    /// What a function reads of it, and that under compute rules, once asked for.
    pub(super) stored: Option<TensorId>,
    pub(super) value: Option<TensorId>,
}

impl VariableNode {
    /// The rules it lies under at rest.
    pub(crate) fn key(&self, id: VariableId) -> Key {
        match self.slot_of {
            Some(owner) => Key { set: RuleSet::Slots, variable: Some(owner) },
            None => Key { set: RuleSet::Params, variable: Some(id) },
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FunctionNode {
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) fetches: Vec<TensorId>,
    pub(crate) updates: Vec<OperationId>,
    pub(crate) at: Provenance,
}

/// Operations that run together: the body of a loop, or what is in no loop's body.
///
/// The operations of a body may read tensors made outside of it; when the region is closed, these
/// become inputs of the loop (*captured*). What a body makes is read outside of it only as an output
/// of the loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    /// In order: each reads what earlier ones make.
    pub(crate) operations: Vec<OperationId>,
    /// Params: what the iteration before has left to carry, slices, the iteration's position.
    pub(crate) carried: Vec<TensorId>,
    pub(crate) sliced: Vec<TensorId>,
    pub(crate) position: Option<TensorId>,
    /// What slices are of; made outside.
    pub(super) stacks: Vec<TensorId>,
    /// What it reads that was made outside.
    pub(crate) captured: Vec<TensorId>,
    /// What the next iteration carries, what is stacked, and under a condition whether to go on.
    pub(crate) results: Vec<TensorId>,
}

impl Region {
    /// All that an iteration is given, in the order of the loop's inputs; its position last.
    pub(crate) fn given(&self) -> impl Iterator<Item = TensorId> {
        let given = self.carried.iter().chain(&self.sliced).chain(&self.captured);
        given.chain(&self.position).copied()
    }
}

/// Runs a region, iteration by iteration.
///
/// Inputs: what the first iteration carries, what is sliced, what is captured, and under a condition
/// whether there is a first iteration. Outputs: what the last one carries, what is stacked, what
/// gradients have asked to be saved of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Loop {
    pub(crate) region: RegionId,
    /// The dim of slices and stacks; its size is the number of iterations.
    pub(crate) iterations: Dimension,
    /// Whether positions fall.
    pub(crate) reverse: bool,
    pub(crate) conditional: bool,
    pub(crate) carried: usize,
    pub(crate) sliced: usize,
    pub(crate) outputs: Vec<TensorType>,
    /// Tensors of the region, stacked by the last outputs.
    pub(crate) saved: Vec<TensorId>,
}

impl Loop {
    /// Number of outputs without those saved for gradients.
    pub(super) fn results(&self) -> usize {
        self.outputs.len() - self.saved.len()
    }
}

/// Half of a reversible block: from two tensors to the second, and the first with what is computed
/// from the second added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Half {
    /// The second.
    pub(super) of: TensorId,
    pub(super) computation: Vec<OperationId>,
    /// What is computed.
    pub(super) added: TensorId,
}

/// Equal elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fill {
    /// As given, in f64.
    given: Scalar,
    pub(super) ty: TensorType,
}

impl Fill {
    pub(super) fn new(value: f64, ty: TensorType) -> Self {
        Self { given: Scalar::new(DType::F64, value), ty }
    }

    /// What was given, in f64.
    pub(super) fn given(&self) -> f64 {
        self.given.value()
    }

    /// The element.
    pub(crate) fn value(&self) -> Scalar {
        Scalar::new(self.ty.dtype, self.given())
    }
}

/// Whether a change is added to a variable's value or subtracted from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Add,
    Sub,
}

/// The variable that an update is of. What it is given has its dims, in any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Updated {
    pub(crate) variable: VariableId,
    pub(super) name: String,
    pub(super) ty: TensorType,
}

/// Shared, and compared by identity: equal contents do not make two of them one.
pub(crate) struct Same<T: ?Sized>(pub(crate) Arc<T>);

impl<T: ?Sized> Clone for Same<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> PartialEq for Same<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Eq for Same<T> {}

impl<T: ?Sized> Hash for Same<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl<T: ?Sized> fmt::Debug for Same<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
