//! Recomputation: memory traded for time.

use super::apply::Asked;
use super::data::{Data, GradCx, Graph, OpKind, Operation, Structural, Tensor};
use super::error::OpError;
use super::ids::{OperationId, TensorId};
use super::nodes::Half;
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
        let before = self.data().made_here();
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
        let mut now = self.behind_barrier(&cx.inputs);
        self.again(computation, &mut now)?;
        let value = |id: TensorId| now.get(&id).copied().unwrap_or(Tensor::new(self, id));
        let with_cotangent = results.iter().zip(&cx.dy).filter_map(|(&y, dy)| Some((y, (*dy)?)));
        let (ys, seeds): (Vec<_>, Vec<_>) = with_cotangent.map(|(y, dy)| (value(y), dy)).unzip();
        let wanted: Vec<_> =
            (0..cx.arity()).filter(|&i| cx.needs(i) && cx.input(i).dtype().is_float()).collect();
        let xs: Vec<_> = wanted.iter().map(|&i| value(cx.input(i).id())).collect();
        let found = self.gradients(&ys, &xs, Some(&seeds));
        let mut grads = vec![None; cx.arity()];
        wanted.into_iter().zip(found).for_each(|(i, grad)| grads[i] = grad);
        Ok(grads)
    }

    /// What a repetition reads instead of these tensors: the same values, so that what it computes
    /// is not merged with what was computed before.
    pub(super) fn behind_barrier<'g>(&'g self, tensors: &[Tensor<'g>]) -> Now<'g> {
        let barrier = |&tensor: &Tensor<'g>| {
            let asked = Asked::keys(vec![tensor.key()]);
            let outputs = self.apply_as(Structural::Barrier, &[tensor], 1, asked).outputs;
            (tensor.id(), outputs[0])
        };
        tensors.iter().map(barrier).collect()
    }

    /// Repeats operations, which read what `now` has for what they read; adds what they make. A probe
    /// shows its tensor once: a repetition passes it over.
    pub(super) fn again<'g>(
        &'g self,
        computation: &[OperationId],
        now: &mut Now<'g>,
    ) -> Result<(), OpError> {
        let mut copies = Copies::new();
        for id in computation {
            let mut source = self.data().operations[id.index()].clone();
            let reads = |&t: &TensorId| now.get(&t).copied().unwrap_or(Tensor::new(self, t));
            let inputs: Vec<_> = source.inputs.iter().map(reads).collect();
            let outputs = match source.structural() {
                Some(Structural::Probe { .. }) => inputs,
                _ => {
                    source.op = repeated(&source.op, &copies, now);
                    // A loop may have been asked to save more since; its outputs are those it has now.
                    self.clone_operation(&source, &inputs)?
                }
            };
            let maker = outputs.first().and_then(|t| self.data().tensors[t.id().index()].producer);
            copies.extend(maker.map(|(copy, _)| (*id, copy)));
            now.extend(source.outputs.iter().copied().zip(outputs));
        }
        Ok(())
    }
}

/// The repetitions of operations.
type Copies = IndexMap<OperationId, OperationId>;

/// An op as it stands in a repetition: what it will repeat in its turn is the repetition.
fn repeated(op: &OpKind, copies: &Copies, now: &Now<'_>) -> OpKind {
    let OpKind::Structural(structural) = op else { return op.clone() };
    let copied = |computation: &[OperationId]| {
        computation.iter().map(|id| copies.get(id).copied().unwrap_or(*id)).collect()
    };
    let tensor = |id: TensorId| now.get(&id).map_or(id, |tensor| tensor.id());
    match &**structural {
        Structural::Recompute { results, computation } => {
            Structural::Recompute { results: *results, computation: copied(computation) }.into()
        }
        Structural::Reversible(halves) => {
            let half = |half: &Half| Half {
                of: tensor(half.of),
                computation: copied(&half.computation),
                added: tensor(half.added),
            };
            Structural::Reversible(halves.iter().map(half).collect()).into()
        }
        _ => op.clone(),
    }
}

/// What stands for tensors in a repetition.
pub(super) type Now<'g> = IndexMap<TensorId, Tensor<'g>>;

impl Data {
    /// How many operations have been made here.
    pub(super) fn made_here(&self) -> usize {
        self.region(self.here()).operations.len()
    }

    /// The operations made here behind the first `before`, and what they read that was there before.
    /// Variables and feeds, which belong to no computation, count as there before.
    pub(super) fn computation(&self, before: usize) -> (Vec<OperationId>, Vec<TensorId>) {
        let reads = |operation: &Operation| {
            matches!(
                operation.structural(),
                Some(Structural::Input { .. } | Structural::Read { .. })
            )
        };
        let of_variable = |tensor: &TensorId| {
            let producer = self.tensors[tensor.index()].producer;
            producer.is_some_and(|(id, _)| reads(&self.operations[id.index()]))
        };
        // The value of a variable for computing with is made once, by who asks first.
        let is_source = |operation: &Operation| match operation.structural() {
            Some(Structural::Relayout) => operation.inputs.iter().all(of_variable),
            _ => reads(operation),
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
