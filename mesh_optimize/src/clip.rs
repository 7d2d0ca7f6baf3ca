//! Clipping: gradients made smaller where they are too large.
//!
//! Each function takes pairs of gradients and variables and returns such pairs; missing gradients pass
//! through. Gradients become f32 (f64 stays) and go where the variable's optimizer state lies, as they
//! would for the update, so under `slots/` rules they are scattered as they are summed and norms are
//! sums of the parts' squares. A norm is that of the whole gradient: a value that lies on many
//! processors counts once.
//!
//! | function | gradient g becomes |
//! |---|---|
//! | [`clip_by_value`] | `min(max(g, low), high)`, element by element |
//! | [`clip_by_norm`] | `g c / max(norm of g, c)` |
//! | [`clip_by_global_norm`] | `g c / max(norm of all gradients, c)` |
//! | [`clip_per_replica`] | the sum over replicas of `g_r c / max(norm of all gradients of r, c)` |
//!
//! Pascanu, Mikolov & Bengio 2013, section 3.2; TensorFlow's functions of these names.

use mesh_core::graph::{Graph, Tensor, Variable};
use mesh_core::names::{DType, Dimension, Shape};
use mesh_ops::{Ops, add_n};

/// A gradient, if there is one, and the variable it belongs to.
pub(crate) type Pair<'g> = (Option<Tensor<'g>>, Variable<'g>);

/// Each element of each gradient, at least `low` and at most `high`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let w = g.variable("w", [dim("x", 2)], F32, Initializer::ONES);
/// let grads = vec![(Some(w.value() * 3.0), w)];
/// let clipped = mesh_optimize::clip_by_value(&grads, -1.0, 1.0);
/// assert_eq!(clipped.len(), 1);
/// ```
#[track_caller]
pub fn clip_by_value<'g>(grads: &[Pair<'g>], low: f64, high: f64) -> Vec<Pair<'g>> {
    let legal = low <= high;
    let problem =
        (!legal).then(|| format!("{low} to {high}: the lower bound is not above the upper one"));
    if refused(grads, "clip_by_value", problem) {
        return grads.to_vec();
    }
    each(grads, "clip_by_value", |grad| grad.clip(low, high))
}

/// Each gradient with a Euclidean norm above `norm` scaled to it.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let w = g.variable("w", [dim("x", 2)], F32, Initializer::ONES);
/// let grads = vec![(Some(w.value() * 3.0), w)];
/// let clipped = mesh_optimize::clip_by_norm(&grads, 1.0);
/// assert_eq!(clipped.len(), 1);
/// ```
#[track_caller]
pub fn clip_by_norm<'g>(grads: &[Pair<'g>], norm: f64) -> Vec<Pair<'g>> {
    if refused(grads, "clip_by_norm", no_norm(norm)) {
        return grads.to_vec();
    }
    each(grads, "clip_by_norm", |grad| grad * multiplier(grad.square().sum_all().sqrt(), norm))
}

/// All gradients scaled by one number, so that the norm of all their elements together is at most
/// `norm`; and that norm as it was before, without dims.
///
/// Without pairs there is no norm. The sum over variables is settled once, whatever they are split
/// over.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, clip_by_global_norm, compute_gradients};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let (grads, norm) = clip_by_global_norm(&compute_gradients(loss, &[]), 1.0);
/// let norm = norm.ok_or("nothing is trained")?;
/// g.function("train", [input], [loss, norm], Sgd::new(0.1).apply_grads(&grads));
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn clip_by_global_norm<'g>(
    grads: &[Pair<'g>],
    norm: f64,
) -> (Vec<Pair<'g>>, Option<Tensor<'g>>) {
    if refused(grads, "clip_by_global_norm", no_norm(norm)) {
        return (grads.to_vec(), graph_of(grads).map(|graph| poisoned(graph)));
    }
    let Some(graph) = graph_of(grads) else { return (Vec::new(), None) };
    graph.on_behalf("clip_by_global_norm", || {
        let grads = each(grads, "clip_by_global_norm", |grad| grad);
        let global = norm_of(graph, &grads, None);
        let factor = multiplier(global, norm);
        let clipped = |grad: Tensor<'g>| grad * factor.cast(grad.dtype());
        let grads = grads.iter().map(|&(grad, v)| (grad.map(clipped), v)).collect();
        (grads, Some(global))
    })
}

/// The value of a variable once for each of `replica`, to build the forward pass of each with.
///
/// A loss that is a sum over replicas then has a gradient for each of them
/// ([`per_replica_gradients`]). If `replica` is split, each processor holds its own copy, as it would
/// without.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let w = g.variable("w", [dim("x", 2)], F32, Initializer::ONES);
/// let values = mesh_optimize::per_replica(w, dim("replica", 4));
/// assert_eq!(values.shape().to_string(), "[replica:4, x:2]");
/// ```
#[track_caller]
pub fn per_replica(variable: Variable<'_>, replica: Dimension) -> Tensor<'_> {
    let value = variable.value();
    match Shape::new(std::iter::once(replica).chain(&variable.shape())) {
        Ok(shape) => value.broadcast(&shape),
        Err(error) => {
            value.graph().record("per_replica", error.to_string());
            value.poisoned()
        }
    }
}

/// Gradients of `loss` with respect to values made by [`per_replica`], each with the dim of the
/// replicas, beside their variables.
///
/// `loss` may have the dim of the replicas; it counts as the sum over all of its elements.
#[track_caller]
pub fn per_replica_gradients<'g>(
    loss: Tensor<'g>,
    values: &[(Tensor<'g>, Variable<'g>)],
) -> Vec<Pair<'g>> {
    let tensors: Vec<_> = values.iter().map(|(value, _)| *value).collect();
    let grads = loss.graph().gradients(&[loss], &tensors, None);
    grads.into_iter().zip(values).map(|(grad, &(_, variable))| (grad, variable)).collect()
}

/// Gradients of [`per_replica_gradients`], those of each replica scaled so that their norm together is
/// at most `norm`, then summed over the replicas.
///
/// So one replica's huge gradient cannot drown the others'. Where a loss has been divided by the number
/// of replicas, so have the norms. If `replica` is split, norms need no collective at all, and each
/// gradient is reduced once, after clipping. With one example per replica this is the clipping of
/// differentially private descent.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, clip_per_replica, per_replica, per_replica_gradients};
///
/// let g = mesh_ops::graph();
/// let (replica, batch, x) = (dim("replica", 4), dim("batch", 8), dim("x", 3));
/// let input = g.input("input", [replica, batch, x], F32);
/// let w = g.variable("w", [x], F32, Initializer::ONES);
/// let w_r = per_replica(w, replica);
/// let loss = input.einsum(&[w_r], [replica, batch]).square().mean_over([batch]);
/// let grads = clip_per_replica(&per_replica_gradients(loss, &[(w_r, w)]), replica, 1.0);
/// g.function("train", [input], [loss.mean()], Sgd::new(0.1).apply_grads(&grads));
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn clip_per_replica<'g>(grads: &[Pair<'g>], replica: Dimension, norm: f64) -> Vec<Pair<'g>> {
    let lacks =
        |grad: &Tensor<'g>| !grad.is_poisoned() && grad.shape().get(replica.name) != Some(replica);
    let stray = grads.iter().filter_map(|(grad, _)| *grad).find(lacks);
    let problem = stray.map(|grad| format!("{grad:?} has no dim {replica}; see per_replica"));
    if refused(grads, "clip_per_replica", problem.or_else(|| no_norm(norm))) {
        return grads.to_vec();
    }
    let Some(graph) = graph_of(grads) else { return Vec::new() };
    graph.on_behalf("clip_per_replica", || {
        // Not laid out as the state is before the sum over replicas: that would move each replica's.
        let widened = |&(grad, v): &Pair<'g>| (grad.map(widen), v);
        let grads: Vec<_> = grads.iter().map(widened).collect();
        let factor = multiplier(norm_of(graph, &grads, Some(replica)), norm);
        let clipped = |grad: Tensor<'g>| (grad * factor.cast(grad.dtype())).sum([replica]);
        grads.iter().map(|&(grad, v)| (grad.map(clipped), v)).collect()
    })
}

/// The norm of all gradients together, of each index of `kept` if given.
fn norm_of<'g>(graph: &'g Graph, grads: &[Pair<'g>], kept: Option<Dimension>) -> Tensor<'g> {
    let present: Vec<_> = grads.iter().filter_map(|(grad, _)| *grad).collect();
    let wide = present.iter().any(|grad| grad.dtype() == DType::F64);
    let dtype = if wide { DType::F64 } else { DType::F32 };
    let squares = |grad: &Tensor<'g>| {
        let summed: Vec<_> = grad.shape().iter().filter(|d| Some(*d) != kept).collect();
        grad.cast(dtype).square().sum(summed)
    };
    let sums: Vec<_> = present.iter().map(squares).collect();
    match sums.as_slice() {
        [] => graph.scalar(0.0, dtype),
        [first, others @ ..] => add_n(*first, others).sqrt(),
    }
}

/// `bound / max(norm, bound)`.
#[track_caller]
fn multiplier(norm: Tensor<'_>, bound: f64) -> Tensor<'_> {
    let bound = norm.graph().scalar(bound, norm.dtype());
    bound / norm.maximum(bound)
}

/// Each gradient, as and where the optimizer gets it, changed.
#[track_caller]
fn each<'g>(
    grads: &[Pair<'g>],
    name: &str,
    change: impl Fn(Tensor<'g>) -> Tensor<'g>,
) -> Vec<Pair<'g>> {
    let Some(graph) = graph_of(grads) else { return Vec::new() };
    let _caller = graph.for_caller();
    let changed = |&(grad, variable): &Pair<'g>| {
        let note = format!("{name} of {}", variable.name());
        let grad = grad.map(|grad| {
            let build = || change(widen(grad.relayout(variable.slots_key())));
            graph.on_behalf(&note, build)
        });
        (grad, variable)
    };
    grads.iter().map(changed).collect()
}

/// Each gradient, as and where the optimizer gets it.
#[track_caller]
pub(crate) fn full_precision<'g>(grads: &[Pair<'g>]) -> Vec<Pair<'g>> {
    each(grads, "gradient", |grad| grad)
}

fn widen(grad: Tensor<'_>) -> Tensor<'_> {
    if grad.dtype() == DType::BF16 { grad.cast(DType::F32) } else { grad }
}

fn graph_of<'g>(grads: &[Pair<'g>]) -> Option<&'g Graph> {
    grads.first().map(|(_, variable)| variable.graph())
}

fn poisoned(graph: &Graph) -> Tensor<'_> {
    graph.scalar(0.0, DType::F32).poisoned()
}

fn no_norm(norm: f64) -> Option<String> {
    let legal = norm > 0.0 && norm.is_finite();
    (!legal).then(|| format!("{norm} is no norm to clip to; it is positive"))
}

/// Whether there is a problem, which is then on record.
#[track_caller]
fn refused(grads: &[Pair<'_>], name: &str, problem: Option<String>) -> bool {
    if let (Some(problem), Some(graph)) = (&problem, graph_of(grads)) {
        graph.record(name, problem.clone());
    }
    problem.is_some()
}
