//! `relayout`: the same tensor under other rules.
//!
//! It moves nothing itself: its output lies where its input lies, and each user demands what its
//! own rules say. So a gather out of `params/` is made once per use region and a pending gradient
//! that meets a split demand becomes a reduce-scatter.

use crate::graph::{GradCx, Op, OpError, Signature, Tensor, TensorType};
use crate::lower::{LocalCx, PlaceCx, Placing};
use crate::split::{Linearity, SplitRule};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Relayout;

impl Op for Relayout {
    fn name(&self) -> &'static str {
        "relayout"
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
        let back = cx.input(0).key();
        Ok(vec![Some(back.map_or(cx.dy(), |key| cx.dy().relayout(key)))])
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        cx.alias()
    }
}
