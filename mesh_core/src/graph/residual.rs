//! What a loop's gradient reads of the loop.
//!
//! The region of a gradient *undoes* another: its iterations run in the opposite order, and what it
//! reads of the other's iterations is stacked by the one loop and sliced by the other, without anybody
//! asking.

use super::apply::Asked;
use super::data::{Data, Graph, OpKind, Operation, Structural, Tensor};
use super::error::OpError;
use super::ids::{Key, OperationId, RegionId, TensorId};
use super::nodes::{Loop, TensorNode};
use super::provenance::Provenance;
use super::types::TensorType;
use crate::names::{Dimension, Shape};
use std::sync::Arc;

impl Graph {
    /// The tensor by which an operation made now reads `tensor`: itself, or what stands for it in
    /// a region that undoes its region.
    pub(super) fn reach<'g>(&'g self, tensor: Tensor<'g>) -> Result<Tensor<'g>, OpError> {
        let data = self.data();
        let undone = data.open.iter().rev().filter_map(|open| open.undoes);
        let id = undone.fold(tensor.id(), |tensor, undone| data.given(undone, tensor));
        let tensor = Tensor::new(self, id);
        let Some(home) = data.region_of(id) else { return Ok(tensor) };
        if home == RegionId::OUTERMOST || data.open.iter().any(|open| open.id == home) {
            return Ok(tensor);
        }
        let undoing = |(depth, open): (usize, &super::data::OpenRegion)| match open.undoes {
            Some((forward, region)) if region == home => Some((depth, forward)),
            _ => None,
        };
        let Some((depth, forward)) = data.open.iter().enumerate().rev().find_map(undoing) else {
            return Err(OpError::new(format!(
                "{tensor:?} is made in a loop's body and used outside of it; return it from the body"
            )));
        };
        if let Some(&known) = data.open[depth].residuals.get(&id) {
            return Ok(Tensor::new(self, known));
        }
        drop(data);
        let _outside = self.outside(depth + 1);
        let residual = self.residual(home, forward, tensor)?;
        self.data.borrow_mut().open[depth].residuals.insert(id, residual.id());
        Ok(residual)
    }

    /// What stands in the innermost open region for a tensor of the region `home`, which it undoes.
    fn residual<'g>(
        &'g self,
        home: RegionId,
        forward: OperationId,
        tensor: Tensor<'g>,
    ) -> Result<Tensor<'g>, OpError> {
        let data = self.data();
        let (id, region) = (tensor.id(), data.region(home));
        if region.position == Some(id) {
            let position = data.region(data.here()).position.unwrap_or(id);
            return Ok(Tensor::new(self, position));
        }
        if let Some(index) = region.sliced.iter().position(|slice| *slice == id) {
            // The loop's own: a repetition of the loop may slice another than the region was built for.
            let run = &data.operations[forward.index()];
            let carried = region.carried.len();
            let stack = run.inputs.get(carried + index).copied().unwrap_or(region.stacks[index]);
            drop(data);
            return Ok(self.slice(Tensor::new(self, stack)));
        }
        // What has no inputs is made again.
        let producer = data.tensors[id.index()].producer;
        let producer = producer.map(|(operation, _)| &data.operations[operation.index()]);
        let is_param = |o: &Operation| matches!(o.structural(), Some(Structural::Param { .. }));
        let source = producer.filter(|o| o.inputs.is_empty() && !is_param(o)).cloned();
        drop(data);
        match source {
            Some(source) => Ok(self.clone_operation(&source, &[])?[0]),
            None => Ok(self.slice(self.save(forward, tensor)?)),
        }
    }

    /// All iterations' values of a tensor of a loop's body, as one more output of the loop.
    fn save<'g>(&'g self, forward: OperationId, tensor: Tensor<'g>) -> Result<Tensor<'g>, OpError> {
        let ty = tensor.tensor_type();
        let data = &mut *self.data.borrow_mut();
        let operation = &mut data.operations[forward.index()];
        let no_loop = || OpError::new("internal error: what is undone is no loop");
        let OpKind::Structural(op) = &mut operation.op else { return Err(no_loop()) };
        let Structural::Loop(run) = Arc::make_mut(op) else { return Err(no_loop()) };
        if let Some(known) = run.saved.iter().position(|saved| *saved == tensor.id()) {
            return Ok(Tensor::new(self, operation.outputs[run.results() + known]));
        }
        let ty = TensorType::new(stacked(run.iterations, &ty.shape)?, ty.dtype);
        run.saved.push(tensor.id());
        run.outputs.push(ty.clone());
        let id = TensorId(data.tensors.len() as u32);
        let producer = Some((forward, operation.outputs.len()));
        operation.outputs.push(id);
        let key = Some(data.tensors[tensor.id().index()].key.unwrap_or(Key::COMPUTE));
        data.tensors.push(TensorNode { ty, producer, key, label: None });
        Ok(Tensor::new(self, id))
    }

    /// The same op on other inputs, here.
    pub(super) fn clone_operation<'g>(
        &'g self,
        source: &Operation,
        inputs: &[Tensor<'g>],
    ) -> Result<Vec<Tensor<'g>>, OpError> {
        let keys = source.outputs.iter().map(|t| self.data().tensors[t.index()].key).collect();
        let asked = Asked::keys(keys).named(source.name.clone());
        let at = self.here(&source.at);
        let made = self.try_apply(source.op.clone(), inputs, source.outputs.len(), asked, &at)?;
        let made = made.map(|applied| applied.outputs);
        made.ok_or_else(|| OpError::new("internal error: a repeated operation has no inputs"))
    }

    /// Where operations made now come from, if not from the given place.
    fn here(&self, otherwise: &Provenance) -> Provenance {
        let asked = self.data().context.last().and_then(|context| context.at.clone());
        asked.unwrap_or_else(|| otherwise.clone())
    }
}

impl Data {
    /// What a loop was given for a tensor that its region captures: another one where the loop is a
    /// repetition of the loop that the region was built for.
    fn given(&self, (forward, region): (OperationId, RegionId), tensor: TensorId) -> TensorId {
        let captured = &self.region(region).captured;
        let operation = &self.operations[forward.index()];
        match (captured.iter().position(|captured| *captured == tensor), operation.structural()) {
            (Some(position), Some(Structural::Loop(Loop { carried, sliced, .. }))) => {
                operation.inputs[carried + sliced + position]
            }
            _ => tensor,
        }
    }
}

/// The shape of one value per iteration, side by side.
pub(super) fn stacked(iterations: Dimension, shape: &Shape) -> Result<Shape, OpError> {
    Shape::new(std::iter::once(iterations).chain(shape)).map_err(OpError::from)
}
