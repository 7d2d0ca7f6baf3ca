//! Applying ops to tensors.

use super::data::{Data, Graph, OpKind, Operation, Structural, Tensor};
use super::error::OpError;
use super::ids::{Key, OperationId, TensorId};
use super::nodes::TensorNode;
use super::op::Op;
use super::provenance::Provenance;
use super::types::TensorType;
use std::panic::Location;
use std::sync::Arc;

/// What is asked for besides an op's inputs.
#[derive(Clone, Default)]
pub(super) struct Asked {
    /// The outputs' layout key, if not that of the inputs.
    key: Option<Key>,
    /// The key of each output, where they differ.
    keys: Vec<Option<Key>>,
    /// The operation's full name, if not the op's name under the current scopes.
    name: Option<String>,
}

impl Asked {
    pub(super) fn key(key: Option<Key>) -> Self {
        Self { key, ..Self::default() }
    }

    pub(super) fn keys(keys: Vec<Option<Key>>) -> Self {
        Self { keys, ..Self::default() }
    }

    pub(super) fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl From<Structural> for OpKind {
    fn from(op: Structural) -> Self {
        Self::Structural(Arc::new(op))
    }
}

/// What has become of an op.
pub(super) struct Applied<'g> {
    /// The operation that was made; `None` if the op was refused.
    pub(super) operation: Option<OperationId>,
    /// Poisoned if there is no operation.
    pub(super) outputs: Vec<Tensor<'g>>,
}

impl Graph {
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
        let op = OpKind::Open(Arc::new(op));
        self.apply_as(op, inputs, count, Asked::default()).outputs
    }

    /// As `apply`, with what is asked for besides.
    #[track_caller]
    pub(super) fn apply_as<'g>(
        &'g self,
        op: impl Into<OpKind>,
        inputs: &[Tensor<'g>],
        count: usize,
        asked: Asked,
    ) -> Applied<'g> {
        let (op, at) = (op.into(), self.provenance(Location::caller()));
        let name = asked.name.clone().unwrap_or_else(|| op.name().to_owned());
        match self.try_apply(op, inputs, count, asked, &at) {
            Ok(Some(applied)) => applied,
            refused => {
                if let Err(error) = refused {
                    self.push_issue(&name, error.to_string(), at);
                }
                Applied { operation: None, outputs: (0..count).map(|_| self.poison()).collect() }
            }
        }
    }

    /// `None` when an input is poisoned: its error is on record already.
    pub(super) fn try_apply<'g>(
        &'g self,
        op: OpKind,
        inputs: &[Tensor<'g>],
        count: usize,
        asked: Asked,
        at: &Provenance,
    ) -> Result<Option<Applied<'g>>, OpError> {
        if inputs.iter().any(|t| !std::ptr::eq(t.graph(), self)) {
            return Err(OpError::new("an input belongs to another graph"));
        }
        if inputs.iter().any(|t| t.is_poisoned()) {
            return Ok(None);
        }
        let inputs = inputs.iter().map(|&t| self.reach(t)).collect::<Result<Vec<_>, _>>()?;
        let types: Vec<_> = inputs.iter().map(|t| t.tensor_type()).collect();
        let types = op.outputs(&types)?;
        types.iter().try_for_each(|ty| ty.shape.check_elements())?;
        if types.len() != count {
            return Err(OpError::new(format!("{} outputs, {count} expected", types.len())));
        }
        let key = match (asked.key, &asked.keys[..]) {
            (None, []) => self.common_key(&inputs)?,
            (asked, _) => asked,
        };
        let key_of = |(i, ty): (usize, &TensorType)| {
            let key = asked.keys.get(i).copied().unwrap_or(key);
            // Scalars fit any key, so they have none.
            if ty.shape.is_scalar() { None } else { Some(key.unwrap_or(Key::COMPUTE)) }
        };
        let keys: Vec<_> = types.iter().enumerate().map(key_of).collect();
        let data = &mut *self.data.borrow_mut();
        let name = match asked.name {
            Some(full) => data.names.unique_full(full),
            None => data.names.unique(op.name()),
        };
        let (phase, region) = (data.phase(), data.here());
        let inputs = inputs.iter().map(|t| t.id()).collect();
        let at = at.clone();
        let operation = Operation { op, inputs, outputs: Vec::new(), name, at, phase, region };
        let id = data.push(operation, types.into_iter().zip(keys));
        data.region_mut(region).operations.push(id);
        let outputs = data.operations[id.index()].outputs.iter();
        let outputs = outputs.map(|&output| Tensor::new(self, output)).collect();
        Ok(Some(Applied { operation: Some(id), outputs }))
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

    pub(super) fn poison(&self) -> Tensor<'_> {
        let mut data = self.data.borrow_mut();
        let id = TensorId(data.tensors.len() as u32);
        let ty = TensorType::default();
        data.tensors.push(TensorNode { ty, producer: None, key: None, label: None });
        drop(data);
        Tensor::new(self, id)
    }
}

impl Data {
    /// Adds an operation with outputs of these types and keys to those of the graph; not to a region.
    pub(super) fn push(
        &mut self,
        mut operation: Operation,
        outputs: impl Iterator<Item = (TensorType, Option<Key>)>,
    ) -> OperationId {
        let id = OperationId(self.operations.len() as u32);
        for (i, (ty, key)) in outputs.enumerate() {
            operation.outputs.push(TensorId(self.tensors.len() as u32));
            self.tensors.push(TensorNode { ty, producer: Some((id, i)), key, label: None });
        }
        self.operations.push(operation);
        id
    }
}
