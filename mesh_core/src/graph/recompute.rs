//! Recomputation: memory traded for time.

use super::structural::{Barrier, Recompute};
use super::{Asked, GradCx, Graph, OpError, OperationId, Tensor, TensorId};
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
        let before = self.data().operations.len();
        let results = forward(inputs);
        let (operations, read) = self.computation(before);
        let mut arguments: IndexSet<TensorId> = inputs.iter().map(|t| t.id()).collect();
        arguments.extend(read);
        let arguments: Vec<_> = arguments.iter().map(|&id| Tensor::new(self, id)).collect();
        self.with_results(Recompute { results: O, operations }, results, &arguments)
    }

    /// The operations made here since there were `before`, and what they read that was there
    /// before. Variables and feeds, which belong to no computation, count as there before.
    fn computation(&self, before: usize) -> (Vec<OperationId>, Vec<TensorId>) {
        let data = self.data();
        let here = data.open.last().copied();
        let is_source = |operation: &super::Operation| {
            let any = operation.op.as_any();
            any.is::<super::structural::Input>() || any.is::<super::structural::Read>()
        };
        let own: Vec<_> = (before..data.operations.len())
            .filter(|&i| data.operations[i].block == here && !is_source(&data.operations[i]))
            .map(|i| OperationId(i as u32))
            .collect();
        let made: IndexSet<TensorId> =
            own.iter().flat_map(|id| data.operations[id.index()].outputs.iter().copied()).collect();
        let read = own.iter().flat_map(|id| data.operations[id.index()].inputs.iter().copied());
        let read: IndexSet<TensorId> = read.filter(|tensor| !made.contains(tensor)).collect();
        (own, read.into_iter().collect())
    }

    /// Repeats a computation from its arguments, the inputs of `cx`, and gives their cotangents.
    pub(super) fn repeat<'g>(
        &'g self,
        operations: &[OperationId],
        results: &[TensorId],
        cx: &GradCx<'g>,
    ) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let mut now: IndexMap<TensorId, Tensor<'g>> = IndexMap::new();
        for &argument in &cx.inputs {
            let asked = Asked::keys(vec![argument.key()]);
            now.insert(argument.id(), self.apply_as(Barrier, &[argument], 1, asked)[0]);
        }
        let again = |now: &IndexMap<TensorId, Tensor<'g>>, id: TensorId| {
            now.get(&id).copied().unwrap_or_else(|| Tensor::new(self, id))
        };
        for id in operations {
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
