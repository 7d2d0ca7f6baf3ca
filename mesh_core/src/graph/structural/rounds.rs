//! `loop`: runs a block round by round; `param`: what a round is given.
//!
//! Lowering places and emits the block with its loop, see `lower/rounds.rs`.

use crate::graph::{BlockId, GradCx, Op, OpError, Signature, Tensor, TensorId, TensorType};
use crate::lower::LocalCx;
use crate::names::Dimension;
use crate::split::SplitRule;

/// Inputs: what the first round carries, what is sliced, what is captured, and under a condition
/// whether there is a first round. Outputs: what the last round carries, what is stacked, what
/// gradients have asked to be saved of each round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Loop {
    pub(crate) block: BlockId,
    /// The dim of slices and stacks; its size is the number of rounds.
    pub(crate) rounds: Dimension,
    pub(crate) reverse: bool,
    pub(crate) conditional: bool,
    pub(crate) carried: usize,
    pub(crate) sliced: usize,
    pub(crate) outputs: Vec<TensorType>,
    /// Tensors of the block, stacked by the last outputs.
    pub(crate) saved: Vec<TensorId>,
}

impl Loop {
    /// Number of outputs without those saved for gradients.
    pub(crate) fn results(&self) -> usize {
        self.outputs.len() - self.saved.len()
    }
}

impl Op for Loop {
    fn name(&self) -> &'static str {
        "loop"
    }
    fn outputs(&self, _: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(self.outputs.clone())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, _: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        Err(OpError::new("internal error: a loop is emitted with its body"))
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        if self.conditional {
            return Err(OpError::new(
                "a while loop has no gradient, as nobody knows its number of rounds; \
                 use scan, or stop_gradient what it returns",
            ));
        }
        cx.output(0).graph().undo(self, cx)
    }
}

/// Given, not computed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Param {
    pub(crate) ty: TensorType,
}

impl Op for Param {
    fn name(&self) -> &'static str {
        "param"
    }
    fn outputs(&self, _: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(vec![self.ty.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, _: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        Err(OpError::new("internal error: a param is given by its loop"))
    }
}
