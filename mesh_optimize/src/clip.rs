//! Gradient clipping.
//!
//! Each function takes pairs of gradient and variable and returns such pairs. A missing gradient
//! stays missing. Gradients become f32 (f64 stays) and move to where the variable's optimizer state
//! lies, as they would for the update. So under `slots/` rules a gradient is reduce-scattered, and
//! a norm is the root of a sum over the parts. A norm is that of the whole gradient: an element
//! that several processors hold counts once.
//!
//! | function | gradient g becomes |
//! |---|---|
//! | [`clip_by_value`] | `min(max(g, low), high)`, element by element |
//! | [`clip_by_norm`] | `g c / max(norm of g, c)` |
//! | [`clip_by_global_norm`] | `g c / max(norm of all gradients, c)` |
//! | [`adaptive_clip`](crate::adaptive_clip) | of each unit, its norm at most `c` times that of its weights |
//! | [`clip_per_replica`] | the sum over replicas of `g_r c / max(norm of all gradients of r, c)` |
//!
//! Sources: Pascanu, Mikolov & Bengio 2013, section 3.2; TensorFlow's functions of these names.

use mesh_core::graph::{Graph, Tensor, Variable};
use mesh_core::names::{DType, Dimension, Shape};
use mesh_ops::{Ops, add_n};

/// A variable and its gradient, if it has one.
pub(crate) type Pair<'g> = (Option<Tensor<'g>>, Variable<'g>);

/// Clips each element of each gradient to the range from `low` to `high`.
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

/// Scales each gradient whose Euclidean norm is above `norm`, so that its norm becomes `norm`.
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

/// Scales all gradients by one number, so that the norm of all their elements together is at most
/// `norm`. Returns them and the norm before scaling, which has no dims.
///
/// Without pairs the norm is `None`. The squares of all variables are added up before they are
/// reduced over processors, so they are reduced once, whatever the variables are split over.
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

/// Repeats the value of a variable along the dim `replica`, for a model that computes a forward
/// pass per replica.
///
/// If the loss is a sum over replicas, each replica then has a gradient of its own
/// ([`per_replica_gradients`]). If `replica` is split, each processor holds one copy, as it would
/// without this function.
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

/// Gradients of `loss` with respect to values that [`per_replica`] made. Each has the dim of the
/// replicas and is returned with its variable.
///
/// `loss` may have the dim of the replicas; it then counts as the sum over all of its elements.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let replica = dim("replica", 4);
/// # let x = g.input("x", [replica, dim("width", 3)], F32);
/// let w = g.variable("w", [dim("width", 3)], F32, Initializer::ONES);
/// let values = mesh_optimize::per_replica(w, replica);
/// let loss = (x * values).square().mean_over([dim("width", 3)]);
/// let grads = mesh_optimize::per_replica_gradients(loss, &[(values, w)]);
/// assert_eq!(grads[0].0.map(|grad| grad.shape().to_string()).as_deref(), Some("[replica:4, width:3]"));
/// ```
#[track_caller]
pub fn per_replica_gradients<'g>(
    loss: Tensor<'g>,
    values: &[(Tensor<'g>, Variable<'g>)],
) -> Vec<Pair<'g>> {
    let tensors: Vec<_> = values.iter().map(|(value, _)| *value).collect();
    let grads = loss.graph().gradients(&[loss], &tensors, None);
    grads.into_iter().zip(values).map(|(grad, &(_, variable))| (grad, variable)).collect()
}

/// Scales the gradients of each replica, which [`per_replica_gradients`] made, so that their norm
/// together is at most `norm`, then adds up the replicas.
///
/// So a single replica with a huge gradient cannot outweigh the others. If the loss was divided by
/// the number of replicas, the norms are smaller by that number, too. If `replica` is split, the
/// norms need no collective and each gradient is reduced once, after clipping. With one example per
/// replica this is the clipping of differentially private descent.
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
        // The gradients stay where they are until the sum over replicas: moving them to the layout
        // of the optimizer state would move every replica's.
        let widened = |&(grad, v): &Pair<'g>| (grad.map(widen), v);
        let grads: Vec<_> = grads.iter().map(widened).collect();
        let factor = multiplier(norm_of(graph, &grads, Some(replica)), norm);
        let clipped = |grad: Tensor<'g>| (grad * factor.cast(grad.dtype())).sum([replica]);
        grads.iter().map(|&(grad, v)| (grad.map(clipped), v)).collect()
    })
}

/// The norm of all gradients together. If `kept` is given, there is one norm for each index of that
/// dim.
pub(crate) fn norm_of<'g>(
    graph: &'g Graph,
    grads: &[Pair<'g>],
    kept: Option<Dimension>,
) -> Tensor<'g> {
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

/// Applies `change` to each gradient, which first gets the dtype and the place that the optimizer
/// needs.
#[track_caller]
fn each<'g>(
    grads: &[Pair<'g>],
    name: &str,
    change: impl Fn(Tensor<'g>) -> Tensor<'g>,
) -> Vec<Pair<'g>> {
    each_with(grads, name, |grad, _| change(grad))
}

/// As `each`, for a change that depends on the variable.
#[track_caller]
pub(crate) fn each_with<'g>(
    grads: &[Pair<'g>],
    name: &str,
    change: impl Fn(Tensor<'g>, Variable<'g>) -> Tensor<'g>,
) -> Vec<Pair<'g>> {
    let Some(graph) = graph_of(grads) else { return Vec::new() };
    let _caller = graph.for_caller();
    let changed = |&(grad, variable): &Pair<'g>| {
        let note = format!("{name} of {}", variable.name());
        let grad = grad.map(|grad| {
            let build = || change(widen(grad.relayout(variable.slots_key())), variable);
            graph.on_behalf(&note, build)
        });
        (grad, variable)
    };
    grads.iter().map(changed).collect()
}

/// Each gradient with the dtype and in the place that the optimizer needs.
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

/// Whether `problem` is given; if so, records it as an error.
#[track_caller]
pub(crate) fn refused(grads: &[Pair<'_>], name: &str, problem: Option<String>) -> bool {
    if let (Some(problem), Some(graph)) = (&problem, graph_of(grads)) {
        graph.record(name, problem.clone());
    }
    problem.is_some()
}
