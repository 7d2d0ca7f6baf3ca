//! The gradient of a loop: another that runs its iterations backwards.

use super::data::{GradCx, Graph, Tensor};
use super::error::OpError;
use super::loops::LoopBuilder;
use super::nodes::Loop;

impl Graph {
    /// The cotangents of a loop's inputs: its iterations backwards.
    pub(super) fn undo<'g>(
        &'g self,
        run: &Loop,
        cx: &GradCx<'g>,
    ) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let region = self.data().region(run.region).clone();
        let tensor = |id| Tensor::new(self, id);
        let is_float = |i: usize| cx.input(i).dtype().is_float();
        let floats: Vec<_> = (0..run.carried).filter(|&i| is_float(i)).collect();
        let first = run.carried + run.sliced;
        let sums: Vec<_> = (first..cx.arity()).filter(|&i| is_float(i) && cx.needs(i)).collect();
        let slices: Vec<_> = (run.carried..first).filter(|&i| is_float(i) && cx.needs(i)).collect();
        // Carried backwards: cotangents of what is carried, sums of those of what is captured.
        let of_output = |i: usize| cx.dy_of(i).unwrap_or_else(|| cx.output(i).fill_like(0.0));
        let seeds = floats.iter().map(|&i| of_output(i));
        let zeros = sums.iter().map(|&i| cx.input(i).fill_like(0.0));
        let carried: Vec<_> = seeds.chain(zeros).collect();

        let mut builder = LoopBuilder::undoing(self, cx.operation, run);
        let params: Vec<_> = carried.into_iter().map(|t| builder.carry(t)).collect();
        let results: Vec<_> =
            region.results.iter().chain(&run.saved).map(|&id| tensor(id)).collect();
        let mut ys: Vec<_> = floats.iter().zip(&params).map(|(&i, &dy)| (results[i], dy)).collect();
        for (i, &result) in results.iter().enumerate().skip(run.carried) {
            if let Some(dy) = cx.dy_of(i) {
                ys.push((result, builder.slice(dy)));
            }
        }
        let xs = floats.iter().map(|&i| region.carried[i]);
        let xs = xs.chain(sums.iter().map(|&i| region.captured[i - first]));
        let xs = xs.chain(slices.iter().map(|&i| region.sliced[i - run.carried]));
        let xs: Vec<_> = xs.map(tensor).collect();
        let grads = self.gradients_within(run.region, &ys, &xs);
        let mut next = Vec::new();
        for (k, (&param, grad)) in params.iter().zip(&grads).enumerate() {
            next.push(match grad {
                None if k < floats.len() => param.fill_like(0.0),
                None => param,
                Some(grad) if k < floats.len() => self.reach(*grad)?,
                Some(grad) => param + *grad,
            });
        }
        let mut pieces = Vec::new();
        for (grad, x) in grads[params.len()..].iter().zip(&xs[params.len()..]) {
            pieces.push(match grad {
                Some(grad) => self.reach(*grad)?,
                None => x.fill_like(0.0),
            });
        }
        let found = builder.finish(&next, &pieces, None);
        let mut all = vec![None; cx.arity()];
        floats
            .iter()
            .chain(&sums)
            .chain(&slices)
            .zip(found)
            .for_each(|(&i, grad)| all[i] = Some(grad));
        Ok(all)
    }
}
