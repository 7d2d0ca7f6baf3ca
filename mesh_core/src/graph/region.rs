//! Regions under construction.

use super::data::{Data, Graph, OpenRegion, Operation, Structural, Tensor};
use super::ids::{Key, OperationId, RegionId, TensorId};
use super::nodes::Region;
use super::types::TensorType;
use crate::names::{DType, Shape};
use indexmap::{IndexMap, IndexSet};
use std::panic::Location;

impl Data {
    pub(crate) fn region(&self, id: RegionId) -> &Region {
        &self.regions[id.0 as usize]
    }

    pub(super) fn region_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.regions[id.0 as usize]
    }

    /// Where operations are made now.
    pub(super) fn here(&self) -> RegionId {
        self.open.last().map_or(RegionId::OUTERMOST, |open| open.id)
    }

    /// The regions around what is made now, the outermost first.
    pub(super) fn enclosing(&self) -> Vec<RegionId> {
        std::iter::once(RegionId::OUTERMOST).chain(self.open.iter().map(|open| open.id)).collect()
    }

    /// Where a tensor is made; nowhere if it is poisoned.
    pub(crate) fn region_of(&self, tensor: TensorId) -> Option<RegionId> {
        let (operation, _) = self.tensors[tensor.index()].producer?;
        Some(self.operations[operation.index()].region)
    }
}

/// While it lives, operations are made outside of the innermost open regions.
pub(super) struct Outside<'g> {
    graph: &'g Graph,
    left: Vec<OpenRegion>,
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.graph.data.borrow_mut().open.append(&mut self.left);
    }
}

impl Graph {
    /// Leaves all open regions but the `depth` outermost; all of them for what belongs to no
    /// iteration, such as reading a variable.
    #[must_use = "the regions are left until this value is dropped"]
    pub(super) fn outside(&self, depth: usize) -> Outside<'_> {
        Outside { graph: self, left: self.data.borrow_mut().open.split_off(depth) }
    }

    /// Begins a loop's body; operations are made in it until [`close`](Self::close).
    #[track_caller]
    pub(super) fn open(&self, undoes: Option<(OperationId, RegionId)>) -> RegionId {
        let at = self.provenance(Location::caller());
        let id = {
            let data = &mut *self.data.borrow_mut();
            let id = RegionId(data.regions.len() as u32);
            data.regions.push(Region::default());
            data.open.push(OpenRegion { id, at, undoes, residuals: IndexMap::new() });
            id
        };
        let position = self.param(TensorType::new(Shape::scalar(), DType::I32), None);
        self.data.borrow_mut().region_mut(id).position = Some(position.id());
        id
    }

    /// Ends the innermost open region, which has these results, and finds what it captures.
    pub(super) fn close(&self, results: &[Tensor<'_>]) {
        let data = &mut *self.data.borrow_mut();
        let Some(OpenRegion { id, .. }) = data.open.pop() else { return };
        let own = data.region(id).operations.iter();
        let read = own.flat_map(|operation| &data.operations[operation.index()].inputs).copied();
        let read = read.chain(results.iter().map(|t| t.id()));
        let captured: IndexSet<_> = read.filter(|t| data.region_of(*t) != Some(id)).collect();
        let region = data.region_mut(id);
        region.captured = captured.into_iter().collect();
        region.results = results.iter().map(|t| t.id()).collect();
    }

    /// A tensor that each iteration of the innermost open region is given.
    fn param(&self, ty: TensorType, key: Option<Key>) -> Tensor<'_> {
        let data = &mut *self.data.borrow_mut();
        let id = TensorId(data.tensors.len() as u32);
        if let Some(open) = data.open.last() {
            let operation = Operation {
                op: Structural::Param { ty: ty.clone() }.into(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                name: data.names.unique("param"),
                at: open.at.clone(),
                phase: 0,
                region: open.id,
            };
            data.push(operation, std::iter::once((ty, key)));
        }
        Tensor::new(self, id)
    }

    /// What an iteration is given for a tensor that is carried, `first` by the first.
    pub(super) fn carry<'g>(&'g self, first: Tensor<'g>) -> Tensor<'g> {
        let param = self.param(first.tensor_type(), first.key());
        let data = &mut *self.data.borrow_mut();
        data.region_mut(data.here()).carried.push(param.id());
        param
    }

    /// A slice, in each iteration, of a tensor whose first dim counts the iterations.
    pub(super) fn slice<'g>(&'g self, stack: Tensor<'g>) -> Tensor<'g> {
        let mut ty = stack.tensor_type();
        let iterations: Vec<_> = ty.shape.names().take(1).collect();
        ty.shape = ty.shape.without(&iterations);
        let key = if ty.shape.is_scalar() { None } else { stack.key() };
        let slice = self.param(ty, key);
        let data = &mut *self.data.borrow_mut();
        let region = data.region_mut(data.here());
        region.sliced.push(slice.id());
        region.stacks.push(stack.id());
        slice
    }

    /// The positions of the iterations of all open regions, the outermost first.
    pub(super) fn positions(&self) -> Vec<Tensor<'_>> {
        let data = self.data();
        let positions = data.open.iter().filter_map(|open| data.region(open.id).position);
        positions.map(|id| Tensor::new(self, id)).collect()
    }
}
