//! Which operations others need. An operation reads what earlier ones of its region make, so one
//! sweep through the region's list finds them, in order.

use super::data::{Data, Structural};
use super::ids::{OperationId, RegionId, TensorId};
use super::nodes::FunctionNode;

impl Data {
    /// Whether a tensor is one number, known when the graph was made, finite and not 0.
    pub(crate) fn is_known(&self, tensor: TensorId) -> bool {
        let Some((producer, _)) = self.tensors[tensor.index()].producer else { return false };
        let op = self.operations[producer.index()].structural();
        let Some(Structural::Fill(fill)) = op else { return false };
        let value = fill.value().value();
        value.is_finite() && value != 0.0
    }

    fn makers(&self, tensors: &[TensorId]) -> impl Iterator<Item = OperationId> {
        tensors.iter().filter_map(|t| Some(self.tensors[t.index()].producer?.0))
    }

    /// Those of `operations` that `starts` need, themselves included, in order.
    fn needed(
        &self,
        operations: impl DoubleEndedIterator<Item = OperationId>,
        starts: impl IntoIterator<Item = OperationId>,
    ) -> Vec<OperationId> {
        let mut needed = vec![false; self.operations.len()];
        starts.into_iter().for_each(|id| needed[id.index()] = true);
        let mut found = Vec::new();
        for id in operations.rev() {
            if needed[id.index()] {
                let inputs = &self.operations[id.index()].inputs;
                self.makers(inputs).for_each(|maker| needed[maker.index()] = true);
                found.push(id);
            }
        }
        found.reverse();
        found
    }

    /// The operations that a function needs and its inputs, in lowering order.
    pub(crate) fn reachable(&self, function: &FunctionNode) -> Vec<OperationId> {
        let tensors = self.makers(&function.fetches).chain(self.makers(&function.inputs));
        let starts = tensors.chain(function.updates.iter().copied());
        self.needed(self.region(RegionId::OUTERMOST).operations.iter().copied(), starts)
    }

    /// The operations of a region that tensors need, in lowering order.
    pub(crate) fn computing(&self, region: RegionId, tensors: &[TensorId]) -> Vec<OperationId> {
        self.needed(self.region(region).operations.iter().copied(), self.makers(tensors))
    }

    /// The operations of some regions, each in the one before it, that `ys` need and whose results
    /// depend on `xs`, in order.
    pub(super) fn depending(
        &self,
        regions: &[RegionId],
        xs: &[TensorId],
        ys: &[TensorId],
    ) -> Vec<OperationId> {
        let operations = regions.iter().flat_map(|id| self.region(*id).operations.iter().copied());
        let mut depends = vec![false; self.tensors.len()];
        xs.iter().for_each(|x| depends[x.index()] = true);
        let mut found = self.needed(operations, self.makers(ys));
        found.retain(|id| {
            let operation = &self.operations[id.index()];
            let given = operation.outputs.iter().any(|t| xs.contains(t));
            let own = !given && operation.inputs.iter().any(|t| depends[t.index()]);
            operation.outputs.iter().for_each(|t| depends[t.index()] |= own);
            own
        });
        found
    }

    /// The operations of some regions, each in the one before it, by way of which a small change of
    /// `xs` changes `ys`: last first, each with which of its inputs change. A change travels by floats
    /// and ends at a `stop_gradient`.
    pub(super) fn changing(
        &self,
        regions: &[RegionId],
        xs: &[TensorId],
        ys: &[TensorId],
    ) -> Vec<(OperationId, Vec<bool>)> {
        let operations = regions.iter().flat_map(|id| self.region(*id).operations.iter().copied());
        let mut changed = vec![false; self.tensors.len()];
        xs.iter().for_each(|x| changed[x.index()] = true);
        let mut met = Vec::new();
        for id in self.needed(operations, self.makers(ys)) {
            let operation = &self.operations[id.index()];
            let stops = matches!(operation.structural(), Some(Structural::StopGradient));
            let inputs: Vec<_> = operation.inputs.iter().map(|t| changed[t.index()]).collect();
            let is_float = |t: &TensorId| self.tensors[t.index()].ty.dtype.is_float();
            let mut travels = operation.inputs.iter().zip(&inputs).map(|(t, c)| *c && is_float(t));
            if !stops && travels.any(|travels| travels) {
                operation.outputs.iter().for_each(|t| changed[t.index()] = true);
                met.push((id, inputs));
            }
        }
        met.reverse();
        met
    }
}
