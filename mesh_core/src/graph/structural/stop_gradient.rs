//! `stop_gradient`: the same tensor, constant for the gradient driver.

use crate::graph::{GradCx, Op, OpError, Signature, Tensor, TensorType};
use crate::lower::LocalCx;
use crate::split::{Linearity, SplitRule};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct StopGradient;

impl Op for StopGradient {
    fn name(&self) -> &'static str {
        "stop_gradient"
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.forward(0);
        Ok(())
    }
    fn gradient<'g>(&self, _: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        Ok(vec![None])
    }
}
