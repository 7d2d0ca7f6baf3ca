//! `recompute`: tensors whose computation is repeated in the backward pass, so that nothing of it
//! need be kept.

use crate::graph::{GradCx, Op, OpError, OperationId, Signature, Tensor, TensorType};
use crate::lower::{LocalCx, PlaceCx, Placing};
use crate::split::SplitRule;

/// Inputs: the results, which the outputs are, and then everything that they were computed from.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recompute {
    pub(crate) results: usize,
    /// The computation.
    pub(crate) operations: Vec<OperationId>,
}

impl Op for Recompute {
    fn name(&self) -> &'static str {
        "recompute"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs[..self.results].to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, _: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        Ok(())
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let graph = cx.input(0).graph();
        let results: Vec<_> = (0..self.results).map(|i| cx.input(i).id()).collect();
        let grads = graph.repeat(&self.operations, &results, &cx.behind(self.results))?;
        Ok(std::iter::repeat_n(None, self.results).chain(grads).collect())
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        cx.aliases(self.results)
    }
}
