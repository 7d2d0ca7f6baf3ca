//! What an optimizer is.

use mesh_core::graph::{Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::cast;

/// How gradients change variables.
pub trait Optimizer {
    /// The updates that one gradient makes to one variable and its slots.
    ///
    /// `grad` is f32 (or f64) and lies, like [`Variable::value_for_update`] and the slots, under the
    /// variable's `slots/` rules; the new value is assigned from there.
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>>;

    /// The updates of many variables. A variable without a gradient is left alone, with a warning
    /// that names it.
    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[(Option<Tensor<'g>>, Variable<'g>)]) -> Vec<Update<'g>> {
        let mut updates = Vec::new();
        for &(grad, variable) in grads {
            let graph = variable.graph();
            let Some(grad) = grad else {
                graph
                    .warn(&variable.name(), "no gradient reaches this variable; it is not updated");
                continue;
            };
            let note = format!("update of {}", variable.name());
            updates.extend(graph.on_behalf(&note, || {
                let wide = if grad.dtype() == DType::BF16 { DType::F32 } else { grad.dtype() };
                let grad = cast(grad.relayout(variable.slots_key()), wide);
                self.apply_grad(grad, variable)
            }));
        }
        updates
    }

    /// Gradients of `loss` with respect to every trainable variable, applied.
    #[track_caller]
    fn minimize<'g>(&self, loss: Tensor<'g>) -> Vec<Update<'g>> {
        let graph = loss.graph();
        let variables = graph.trainable_variables();
        let values: Vec<_> = variables.iter().map(|v| v.value()).collect();
        let grads = graph.gradients(&[loss], &values, None);
        let pairs: Vec<_> = grads.into_iter().zip(variables).collect();
        self.apply_grads(&pairs)
    }
}
