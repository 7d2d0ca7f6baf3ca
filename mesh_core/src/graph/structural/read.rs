//! `read`: a variable as it was when the call started.

use crate::graph::{Op, OpError, Signature, TensorType};
use crate::lower::LocalCx;
use crate::program::VariableId;
use crate::split::SplitRule;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    pub(crate) variable: VariableId,
    pub(crate) ty: TensorType,
}

impl Op for Read {
    fn name(&self) -> &'static str {
        "read"
    }
    fn outputs(&self, _: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(vec![self.ty.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.read(self.variable);
        Ok(())
    }
}
