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

    /// The names of the slots that [`apply_grad`](Self::apply_grad) may give a variable.
    fn slot_names(&self) -> Vec<&'static str>;

    /// A slot of this optimizer; `None` if the variable has none of that name.
    fn slot<'g>(&self, variable: Variable<'g>, name: &str) -> Option<Variable<'g>> {
        variable.find_slot(name).filter(|_| self.slot_names().contains(&name))
    }

    /// The updates of many variables. A variable without a gradient is left alone, with a warning
    /// that names it.
    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[(Option<Tensor<'g>>, Variable<'g>)]) -> Vec<Update<'g>> {
        apply_each(grads, |grad, variable| self.apply_grad(grad, variable))
    }

    /// Gradients of `loss` with respect to every trainable variable, applied.
    #[track_caller]
    fn minimize<'g>(&self, loss: Tensor<'g>) -> Vec<Update<'g>> {
        self.apply_grads(&compute_gradients(loss, &[]))
    }
}

/// The gradient of `loss` with respect to each of `variables`, or to every trainable variable if
/// none is named; what is done to gradients goes between this and [`Optimizer::apply_grads`].
///
/// A variable that `loss` does not depend on has no gradient; if none has one, that is an error.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, compute_gradients};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let mut grads = compute_gradients(loss, &[]);
/// for (grad, _) in &mut grads {
///     *grad = grad.map(|grad| grad.sign());
/// }
/// g.function("train", [input], [loss], Sgd::new(0.1).apply_grads(&grads));
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn compute_gradients<'g>(
    loss: Tensor<'g>,
    variables: &[Variable<'g>],
) -> Vec<(Option<Tensor<'g>>, Variable<'g>)> {
    let graph = loss.graph();
    let all = || graph.trainable_variables();
    let variables = if variables.is_empty() { all() } else { variables.to_vec() };
    let values: Vec<_> = variables.iter().map(|variable| variable.value()).collect();
    let grads = graph.gradients(&[loss], &values, None);
    if grads.iter().all(Option::is_none) && !loss.is_poisoned() {
        let names: Vec<_> = variables.iter().map(|variable| variable.name()).collect();
        let message = match &names[..] {
            [] => "there is no trainable variable to differentiate by".to_owned(),
            names => format!("the loss depends on none of {}", names.join(", ")),
        };
        graph.record("compute_gradients", message);
    }
    grads.into_iter().zip(variables).collect()
}

/// Each gradient, wide and under the `slots/` rules of its variable, handed to `apply`.
#[track_caller]
pub(crate) fn apply_each<'g>(
    grads: &[(Option<Tensor<'g>>, Variable<'g>)],
    mut apply: impl FnMut(Tensor<'g>, Variable<'g>) -> Vec<Update<'g>>,
) -> Vec<Update<'g>> {
    let mut updates = Vec::new();
    for &(grad, variable) in grads {
        let graph = variable.graph();
        let Some(grad) = grad else {
            graph.warn(&variable.name(), "no gradient reaches this variable; it is not updated");
            continue;
        };
        let note = format!("update of {}", variable.name());
        updates.extend(graph.on_behalf(&note, || {
            let wide = if grad.dtype() == DType::BF16 { DType::F32 } else { grad.dtype() };
            apply(cast(grad.relayout(variable.slots_key()), wide), variable)
        }));
    }
    updates
}

impl<O: Optimizer + ?Sized> Optimizer for Box<O> {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        (**self).apply_grad(grad, variable)
    }
    fn slot_names(&self) -> Vec<&'static str> {
        (**self).slot_names()
    }
    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[(Option<Tensor<'g>>, Variable<'g>)]) -> Vec<Update<'g>> {
        let Some((_, first)) = grads.first() else { return Vec::new() };
        first.graph().on_behalf("updates", || (**self).apply_grads(grads))
    }
}
