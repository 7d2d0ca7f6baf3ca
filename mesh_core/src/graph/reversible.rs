//! Reversible blocks: the backward pass computes what goes into a block from what came out of it.

use super::data::{Data, GradCx, Graph, Structural, Tensor};
use super::error::OpError;
use super::ids::{OperationId, TensorId};
use super::nodes::Half;
use super::recompute::Now;
use indexmap::{IndexMap, IndexSet};

impl Graph {
    /// Reversible blocks, one after the other, whose gradient needs their results only.
    ///
    /// These are the blocks of RevNet (Gomez et al. 2017, arXiv 1707.04585, section 3.1). Block i of
    /// `blocks` turns two tensors of one type into two others:
    ///
    /// ```text
    /// y1 = x1 + f(i, x2)
    /// y2 = x2 + g(i, y1)
    /// ```
    ///
    /// The backward pass computes `x2 = y2 - g(i, y1)` and `x1 = y1 - f(i, x2)`, up to rounding, and
    /// repeats `f` and `g` (random numbers included). So neither their intermediate values nor what
    /// lies between blocks is kept for it: memory does not grow with the number of blocks.
    ///
    /// ```
    /// # use mesh_core::{graph::Graph, names::{dim, DType}};
    /// # fn doc(g: &Graph) {
    /// let d = dim("d", 8);
    /// let (x, w) = (g.input("x", [d], DType::F32), g.input("w", [d], DType::F32));
    /// let [y1, y2] = g.reversible([x, x], 4, |_, x| x * w, |_, x| x * x);
    /// let dw = g.gradients(&[y1 + y2], &[w], None);
    /// # let _ = dw;
    /// # }
    /// ```
    #[track_caller]
    pub fn reversible<'g>(
        &'g self,
        inputs: [Tensor<'g>; 2],
        blocks: usize,
        mut f: impl FnMut(usize, Tensor<'g>) -> Tensor<'g>,
        mut g: impl FnMut(usize, Tensor<'g>) -> Tensor<'g>,
    ) -> [Tensor<'g>; 2] {
        let mut captured: IndexSet<TensorId> = IndexSet::new();
        let mut halves = Vec::new();
        let [mut first, mut second] = inputs;
        for half in 0..2 * blocks {
            let before = self.data().made_here();
            let added = if half % 2 == 0 { f(half / 2, second) } else { g(half / 2, second) };
            let (computation, mut read) = self.data().computation(before);
            let Some(sum) = self.added("reversible", first, added) else {
                return [inputs[0].poisoned(); 2];
            };
            if !self.data().is_made_by(&computation, added.id()) {
                read.push(added.id());
            }
            captured.extend(read.into_iter().filter(|&id| id != second.id()));
            halves.push(Half { of: second.id(), computation, added: added.id() });
            (first, second) = (second, sum);
        }
        let captured = captured.iter().map(|&id| Tensor::new(self, id));
        let arguments: Vec<_> = inputs.into_iter().chain(captured).collect();
        self.with_results(Structural::Reversible(halves), [first, second], &arguments)
    }

    /// `x + part`, of the type of `x`; another type is recorded.
    #[track_caller]
    fn added<'g>(&'g self, subject: &str, x: Tensor<'g>, part: Tensor<'g>) -> Option<Tensor<'g>> {
        if x.is_poisoned() || part.is_poisoned() {
            return None;
        }
        let (want, got) = (x.tensor_type(), part.tensor_type());
        if want.dtype != got.dtype || !want.shape.is_permutation_of(&got.shape) {
            self.record(subject, format!("a block adds {got} to {want}; both must be of one type"));
            return None;
        }
        Some(x + part)
    }

    /// Goes through the halves backwards, from the outputs of `cx`, and gives the cotangents of its
    /// inputs.
    pub(super) fn reverse<'g>(
        &'g self,
        halves: &[Half],
        cx: &GradCx<'g>,
    ) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let outputs = [cx.output(0), cx.output(1)];
        let zeros = |i: usize| cx.dy_of(i).unwrap_or_else(|| outputs[i].fill_like(0.0));
        let (mut of_first, mut of_second) = (zeros(0), zeros(1));
        let results = self.behind_barrier(&outputs);
        let (mut first, mut second) = (results[&outputs[0].id()], results[&outputs[1].id()]);
        let wanted = (2..cx.arity()).filter(|&i| cx.needs(i) && cx.input(i).dtype().is_float());
        let wanted: IndexSet<_> = wanted.map(|i| cx.input(i).id()).collect();
        let mut found: Now<'g> = IndexMap::new();
        for half in halves.iter().rev() {
            // A barrier for each half: what it is applied to is computed from captured tensors, too,
            // and its gradient must not count those ways.
            let read = self.read_by(half);
            let captured = cx.inputs.iter().filter(|input| read.contains(&input.id()));
            let mut now = self.behind_barrier(&captured.copied().collect::<Vec<_>>());
            let read: Vec<_> = now.keys().copied().filter(|id| wanted.contains(id)).collect();
            now.insert(half.of, first);
            self.again(&half.computation, &mut now)?;
            let added = now.get(&half.added).copied().unwrap_or(Tensor::new(self, half.added));
            let arguments = read.iter().map(|id| now[id]);
            let xs: Vec<_> = std::iter::once(first).chain(arguments).collect();
            let grads = self.gradients(&[added], &xs, Some(&[of_second]));
            for (id, grad) in read.iter().zip(&grads[1..]) {
                let Some(grad) = *grad else { continue };
                let sum = found.get(id).map_or(grad, |before| *before + grad);
                found.insert(*id, sum);
            }
            let below = grads[0].map_or(of_first, |grad| of_first + grad);
            (first, second) = (second - added, first);
            (of_first, of_second) = (of_second, below);
        }
        let captured = (2..cx.arity()).map(|i| found.get(&cx.input(i).id()).copied());
        Ok([Some(of_first), Some(of_second)].into_iter().chain(captured).collect())
    }

    /// What a half reads besides what it is applied to.
    fn read_by(&self, half: &Half) -> IndexSet<TensorId> {
        let data = self.data();
        let operations = half.computation.iter().map(|id| &data.operations[id.index()]);
        let inputs = operations.flat_map(|operation| operation.inputs.iter().copied());
        inputs.chain([half.added]).filter(|id| *id != half.of).collect()
    }
}

impl Data {
    /// Whether one of these operations makes the tensor.
    fn is_made_by(&self, operations: &[OperationId], tensor: TensorId) -> bool {
        let producer = self.tensors[tensor.index()].producer;
        producer.is_some_and(|(operation, _)| operations.contains(&operation))
    }
}
