//! `barrier`: its inputs as they are, once all of them have been computed, not to be merged with
//! what was computed from them elsewhere.

use crate::graph::{GradCx, Op, OpError, Signature, Tensor, TensorType};
use crate::lower::{LocalCx, PlaceCx, Placing};
use crate::split::SplitRule;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Barrier;

impl Op for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let outs = cx.barrier(&cx.inputs());
        outs.into_iter().enumerate().for_each(|(i, out)| cx.finish(i, out));
        Ok(())
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        Ok((0..cx.arity()).map(|i| cx.dy_of(i)).collect())
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        let here = cx.all_available();
        Placing::new(here.clone(), here)
    }
}
