//! The trait of optimizers.

use mesh_core::graph::{Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::cast;

/// How gradients change variables.
///
/// ```
/// use mesh_core::graph::{Tensor, Update, Variable};
/// use mesh_ops::prelude::*;
/// use mesh_optimize::Optimizer;
///
/// /// Steps of one size, whatever the size of the gradient.
/// struct SignDescent(f64);
///
/// impl Optimizer for SignDescent {
/// fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
/// vec![variable.assign_sub((grad.sign() * self.0).cast(variable.dtype()))]
/// }
///
/// fn slot_names(&self) -> Vec<&'static str> {
/// Vec::new()
/// }
/// }
///
/// let g = mesh_ops::graph();
/// let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// let loss = x.dense(dim("out", 3), "out").square().mean();
/// g.function("train", [x], [loss], SignDescent(0.01).minimize(loss));
/// g.lower(&"data:2".parse()?, &"batch:data;slots/*:data".parse()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Optimizer {
    /// The updates of one variable and its slots by one gradient.
    ///
    /// `grad` is f32 or f64. It lies where the variable's `slots/` rules say, as do
    /// [`Variable::value_for_update`] and the slots. The new value is assigned from there.
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>>;

    /// The names of the slots that [`apply_grad`](Self::apply_grad) makes.
    fn slot_names(&self) -> Vec<&'static str>;

    /// The slot of a variable by its name; `None` if the variable has no slot of that name, or has
    /// it from another optimizer.
    fn slot<'g>(&self, variable: Variable<'g>, name: &str) -> Option<Variable<'g>> {
        variable.find_slot(name).filter(|_| self.slot_names().contains(&name))
    }

    /// The updates of several variables. A variable without a gradient keeps its value, and a
    /// warning names it.
    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[(Option<Tensor<'g>>, Variable<'g>)]) -> Vec<Update<'g>> {
        apply_each(grads, |grad, variable| self.apply_grad(grad, variable))
    }

    /// The gradient of `loss`, which should have no dims, for each trainable variable: that at the
    /// variable's value, see [`compute_gradients`], unless the optimizer takes it elsewhere.
    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<(Option<Tensor<'g>>, Variable<'g>)> {
        compute_gradients(loss, &[])
    }

    /// The updates of every trainable variable by its [gradient](Self::compute_gradients) of `loss`.
    #[track_caller]
    fn minimize<'g>(&self, loss: Tensor<'g>) -> Vec<Update<'g>> {
        self.apply_grads(&self.compute_gradients(loss))
    }

    /// What the model is evaluated with in the place of a variable's value: that value, unless the
    /// optimizer averages weights. It has the variable's shape and dtype.
    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        variable.value()
    }

    /// `tensors`, computed again with the [evaluation values](Self::evaluation_value) of all trainable
    /// variables. What depends on none of them, and everything if the optimizer does not average, stays
    /// as it is; see [`Graph::replace`](mesh_core::graph::Graph::replace).
    ///
    /// ```
    /// use mesh_ops::prelude::*;
    /// use mesh_optimize::{Ema, Optimizer, Sgd};
    ///
    /// let g = mesh_ops::graph();
    /// let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// let loss = x.dense(dim("out", 3), "out").square().mean();
    /// let optimizer = Ema::new(Sgd::new(0.1), 0.99);
    /// g.function("train", [x], [loss], optimizer.minimize(loss));
    /// g.function("evaluate", [x], [optimizer.for_evaluation(&[loss])[0]], []);
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    fn for_evaluation<'g>(&self, tensors: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        let Some(first) = tensors.first() else { return Vec::new() };
        let graph = first.graph();
        let values = |variable: &Variable<'g>| (variable.value(), self.evaluation_value(*variable));
        let instead = graph.on_behalf("evaluation", || {
            let variables = graph.trainable_variables();
            let values = variables.iter().map(values);
            values.filter(|(own, other)| own.id() != other.id()).collect::<Vec<_>>()
        });
        graph.replace(tensors, &instead)
    }
}

/// The gradient of `loss` with respect to each of `variables`, or to every trainable variable if
/// the list is empty. Change the gradients, by clipping for example, before you give them to
/// [`Optimizer::apply_grads`].
///
/// Of a loss with dims the gradient is that of its sum, and a warning says so.
///
/// A variable that `loss` does not depend on has no gradient. If no variable has one, that is an
/// error of the graph.
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
    if !loss.shape().is_scalar() {
        let message = format!(
            "{loss:?} has dims: the gradients are those of its sum over {}; call `mean()` for those of \
             its mean, or `sum_all()` to say that the sum is meant",
            loss.shape()
        );
        graph.warn("loss", message);
    }
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

/// Calls `apply` with each gradient, cast to f32 (f64 stays) and moved to where the variable's
/// `slots/` rules say.
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
    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<(Option<Tensor<'g>>, Variable<'g>)> {
        (**self).compute_gradients(loss)
    }
    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        (**self).evaluation_value(variable)
    }
}
