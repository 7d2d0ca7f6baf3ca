//! `input`: a tensor the caller of a function feeds.
//!
//! Any layout of its dims is legal; each processor receives its own slice.

use crate::graph::{Op, OpError, Signature, TensorType};
use crate::lower::LocalCx;
use crate::split::SplitRule;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) ty: TensorType,
}

impl Op for Input {
    fn name(&self) -> &'static str {
        "input"
    }
    fn outputs(&self, _: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(vec![self.ty.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.feed(&self.name);
        Ok(())
    }
}
