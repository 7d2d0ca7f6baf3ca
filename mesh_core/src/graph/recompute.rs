//! Recomputation: memory traded for time.

use super::apply::Asked;
use super::data::{Data, GradCx, Graph, Operation, Structural, Tensor};
use super::error::OpError;
use super::ids::{OperationId, TensorId};
use indexmap::{IndexMap, IndexSet};

impl Graph {
    /// What `forward` computes from `inputs`. Nothing it computes on the way is kept for the
    /// backward pass, which repeats it (random numbers included) just before it is needed.
    #[track_caller]
    pub fn recompute<'g, const I: usize, const O: usize>(
        &'g self,
        inputs: [Tensor<'g>; I],
        forward: impl FnOnce([Tensor<'g>; I]) -> [Tensor<'g>; O],
    ) -> [Tensor<'g>; O] {
        let made = |data: &Data| data.region(data.here()).operations.len();
        let before = made(&self.data());
        let results = forward(inputs);
        let (computation, read) = self.data().computation(before);
        let mut arguments: IndexSet<TensorId> = inputs.iter().map(|t| t.id()).collect();
        arguments.extend(read);
        let arguments: Vec<_> = arguments.iter().map(|&id| Tensor::new(self, id)).collect();
        self.with_results(Structural::Recompute { results: O, computation }, results, &arguments)
    }

    /// Repeats a computation from its arguments, the inputs of `cx`, and gives their cotangents.
    pub(super) fn repeat<'g>(
        &'g self,
        computation: &[OperationId],
        results: &[TensorId],
        cx: &GradCx<'g>,
    ) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let mut now: IndexMap<TensorId, Tensor<'g>> = IndexMap::new();
        for &argument in &cx.inputs {
            let asked = Asked::keys(vec![argument.key()]);
            now.insert(
                argument.id(),
                self.apply_as(Structural::Barrier, &[argument], 1, asked).outputs[0],
            );
        }
        let again = |now: &IndexMap<TensorId, Tensor<'g>>, id: TensorId| {
            now.get(&id).copied().unwrap_or_else(|| Tensor::new(self, id))
        };
        for id in computation {
            let source = self.data().operations[id.index()].clone();
            let inputs: Vec<_> = source.inputs.iter().map(|&t| again(&now, t)).collect();
            // A loop may have been asked to save more since; its outputs are those it has now.
            let outputs = self.clone_operation(&source, &inputs)?;
            now.extend(source.outputs.iter().copied().zip(outputs));
        }
        let with_cotangent = results.iter().zip(&cx.dy).filter_map(|(&y, dy)| Some((y, (*dy)?)));
        let (ys, seeds): (Vec<_>, Vec<_>) =
            with_cotangent.map(|(y, dy)| (again(&now, y), dy)).unzip();
        let wanted: Vec<_> =
            (0..cx.arity()).filter(|&i| cx.needs(i) && cx.input(i).dtype().is_float()).collect();
        let xs: Vec<_> = wanted.iter().map(|&i| again(&now, cx.input(i).id())).collect();
        let found = self.gradients(&ys, &xs, Some(&seeds));
        let mut grads = vec![None; cx.arity()];
        wanted.into_iter().zip(found).for_each(|(i, grad)| grads[i] = grad);
        Ok(grads)
    }
}

impl Data {
    /// The operations made here behind the first `before`, and what they read that was there before.
    /// Variables and feeds, which belong to no computation, count as there before.
    fn computation(&self, before: usize) -> (Vec<OperationId>, Vec<TensorId>) {
        let is_source = |operation: &Operation| {
            matches!(
                operation.structural(),
                Some(Structural::Input { .. } | Structural::Read { .. })
            )
        };
        let mut own = self.region(self.here()).operations[before..].to_vec();
        own.retain(|id| !is_source(&self.operations[id.index()]));
        let operations = || own.iter().map(|id| &self.operations[id.index()]);
        let made: IndexSet<_> = operations().flat_map(|o| &o.outputs).collect();
        let read = operations().flat_map(|o| &o.inputs).filter(|tensor| !made.contains(tensor));
        let read: IndexSet<_> = read.copied().collect();
        (own, read.into_iter().collect())
    }
}
