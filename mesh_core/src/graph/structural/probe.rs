//! `probe`: the same tensor, shown to whoever watches the session.

use crate::graph::{GradCx, Op, OpError, Signature, Tensor, TensorType};
use crate::lower::{LocalCx, PlaceCx, Placing};
use crate::split::{Linearity, SplitRule};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Probe {
    pub(crate) label: String,
}

impl Op for Probe {
    fn name(&self) -> &'static str {
        "probe"
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
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        Ok(vec![cx.dy_of(0)])
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        cx.aliases(1)
    }
}
