//! `custom_gradient`: tensors whose cotangents a function of the user's turns into those of what
//! they were computed from.

use crate::graph::{GradCx, Op, OpError, Signature, Tensor, TensorType};
use crate::lower::{LocalCx, PlaceCx, Placing};
use crate::split::SplitRule;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// From the inputs, outputs and cotangents to the cotangents of the inputs.
pub(crate) type Rule = dyn for<'g> Fn(&GradCx<'g>) -> Vec<Option<Tensor<'g>>> + Send + Sync;

/// Inputs: the results, which the outputs are, and then the arguments that they were computed from.
pub(crate) struct Custom {
    pub(crate) results: usize,
    pub(crate) rule: Arc<Rule>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({} results)", self.results)
    }
}

/// Compared by identity of the function.
impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rule, &other.rule)
    }
}

impl Eq for Custom {}

impl Hash for Custom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.rule).hash(state);
    }
}

impl Op for Custom {
    fn name(&self) -> &'static str {
        "custom_gradient"
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
        let inner = cx.behind(self.results);
        let grads = (self.rule)(&inner);
        if grads.len() != inner.arity() {
            return Err(OpError::new(format!(
                "its gradient function returns {} cotangents for {} inputs",
                grads.len(),
                inner.arity()
            )));
        }
        Ok(std::iter::repeat_n(None, self.results).chain(grads).collect())
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        cx.aliases(self.results)
    }
}
