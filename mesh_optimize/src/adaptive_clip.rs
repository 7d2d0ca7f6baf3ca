//! Adaptive gradient clipping: Brock et al. 2021 (arXiv 2102.06171), equation 3, as
//! `optax.adaptive_grad_clip`.
//!
//! ```text
//! g_i <- g_i c max(|w_i|, eps) / |g_i|     where |g_i| > c max(|w_i|, eps)
//! ```
//!
//! i goes over the units of a layer; |w_i| is the Euclidean norm of the weights that lead to the unit.

use crate::clip::{Pair, each_with, refused};
use mesh_core::graph::{Tensor, Variable};
use mesh_core::names::Dimension;
use mesh_ops::elementwise::{cast, less, maximum, select, sqrt, square};
use mesh_ops::reduce::sum;
use std::fmt;
use std::sync::Arc;

/// Which dims of a variable count its units: each of their indices has a norm of its own.
#[derive(Clone, Default)]
pub enum Units {
    /// optax's choice by the number of dims. With two or three, all but the first; with more, the last, as
    /// in a filter whose channels come last; with one or none, the whole variable is one unit.
    #[default]
    ByRank,
    /// The dims of these names, of those that the variable has. A variable of at most one dim is one unit.
    Dims(Vec<String>),
    /// Those that the function returns for a variable's name and dims.
    Of(Arc<Choice>),
}

/// From a variable's name and dims to those that count its units.
type Choice = dyn Fn(&str, &[Dimension]) -> Vec<Dimension> + Send + Sync;

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByRank => f.write_str("ByRank"),
            Self::Dims(names) => f.debug_tuple("Dims").field(names).finish(),
            Self::Of(_) => f.write_str("Of(..)"),
        }
    }
}

impl Units {
    /// The dims over which a norm of the variable is taken: those that do not count its units.
    fn summed(&self, variable: Variable<'_>) -> Vec<Dimension> {
        let dims: Vec<_> = variable.shape().iter().collect();
        let units = match (self, &dims[..]) {
            (Self::Of(units), _) => units(&variable.name(), &dims),
            (_, [] | [_]) => Vec::new(),
            (Self::ByRank, [_, others @ ..]) if others.len() <= 2 => others.to_vec(),
            (Self::ByRank, [.., last]) => vec![*last],
            (Self::Dims(names), _) => {
                let named =
                    |dim: &Dimension| names.iter().any(|name| dim.name == name.as_str().into());
                dims.iter().copied().filter(named).collect()
            }
        };
        dims.into_iter().filter(|dim| !units.contains(dim)).collect()
    }
}

/// Scales the gradient of each unit whose norm is above `clipping` times that of the unit's weights, so that
/// it becomes that. Weights count as at least `epsilon`, so that zeros can be trained (the paper and optax
/// have 1e-3; `clipping` is 0.01 to 0.16 in the paper).
///
/// Gradients get the dtype and place that the optimizer needs, as by [`clip_by_norm`](crate::clip_by_norm).
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, Units, adaptive_clip, compute_gradients};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let grads = adaptive_clip(&compute_gradients(loss, &[]), 0.01, 1e-3, &Units::ByRank);
/// g.function("train", [input], [loss], Sgd::new(0.1).apply_grads(&grads));
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn adaptive_clip<'g>(
    grads: &[Pair<'g>],
    clipping: f64,
    epsilon: f64,
    units: &Units,
) -> Vec<Pair<'g>> {
    let positive = |what: &str, x: f64| {
        let legal = x > 0.0 && x.is_finite();
        (!legal).then(|| format!("{what} is {x}; legal is a number above 0"))
    };
    let problem = positive("clipping", clipping).or_else(|| positive("epsilon", epsilon));
    if refused(grads, "adaptive_clip", problem) {
        return grads.to_vec();
    }
    each_with(grads, "adaptive_clip", |grad, variable| {
        let summed = units.summed(variable);
        let norm = |x: Tensor<'g>| sqrt(sum(square(x), summed.iter().copied()));
        let weights = cast(variable.value_for_update(), grad.dtype());
        let (own, most) = (norm(grad), maximum(norm(weights), epsilon) * clipping);
        // A divisor that is never 0; where it is not the norm, nothing is divided.
        let clipped = grad * (most / maximum(own, LEAST_NORM));
        select(less(own, most), grad, clipped)
    })
}

/// As in optax: what a norm counts as at least where it divides.
const LEAST_NORM: f64 = 1e-6;
