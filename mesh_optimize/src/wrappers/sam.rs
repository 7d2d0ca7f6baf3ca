//! Sharpness-aware minimization: Foret et al. 2021 (arXiv 2010.01412), algorithm 1 with p = 2, as
//! `optax.contrib.sam` with `normalize` and descent as the adversary:
//!
//! ```text
//! g = gradient of the loss at w         norm over all variables together
//! h = gradient of the loss at w + rho g / norm(g)
//! w <- what the inner optimizer makes of it with the gradient h
//! ```

use super::{among_slots, for_computing};
use crate::clip::{Pair, full_precision, norm_of};
use crate::options::{About, FROM_0, Setting, Wrapper, check_wrapper, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{cast, equal, select};

/// Another optimizer, with gradients from where the loss is largest nearby.
///
/// A step takes two gradients, one after the other, of the same loss with the same random numbers. They are
/// made by [`compute_gradients`](Optimizer::compute_gradients), and so by
/// [`minimize`](Optimizer::minimize); gradients from elsewhere, as those of
/// [`microbatches`](crate::microbatches), are applied as they are.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Momentum, Optimizer, Sam, clip_by_global_norm};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let sam = Sam::new(Momentum::new(0.1, 0.9), 0.05);
/// let (grads, _) = clip_by_global_norm(&sam.compute_gradients(loss), 1.0);
/// g.function("train", [input], [loss], sam.apply_grads(&grads));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sam<O = Box<dyn Optimizer>> {
    /// The optimizer that gets the second gradients.
    pub inner: O,
    /// How far away the second gradients are taken.
    pub rho: Schedule,
}

impl<O> Sam<O> {
    /// The paper's default distance is 0.05.
    pub fn new(inner: O, rho: impl Into<Schedule>) -> Self {
        Self { inner, rho: rho.into() }
    }

    /// The same around another optimizer.
    fn with<P>(&self, inner: P) -> Sam<P> {
        Sam { inner, rho: self.rho.clone() }
    }

    /// The variables that have a gradient, each with its weights at the distance `rho`.
    #[track_caller]
    fn away<'g>(&self, grads: &[Pair<'g>]) -> Vec<(Variable<'g>, Tensor<'g>)> {
        let Some((_, first)) = grads.first() else { return Vec::new() };
        let norm = norm_of(first.graph(), grads, None);
        let divisor = select(equal(norm, 0.0), norm.scalar_like(1.0), norm);
        let away = |&(grad, variable): &Pair<'g>| {
            let own = among_slots(variable.stored(), variable);
            let factor = cast(self.rho.at(norm.graph(), norm.dtype()) / divisor, own.dtype());
            Some((variable, for_computing(own + cast(grad?, own.dtype()) * factor, variable)))
        };
        grads.iter().filter_map(away).collect()
    }
}

impl<O: Optimizer> Optimizer for Sam<O> {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        self.inner.apply_grad(grad, variable)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        self.inner.slot_names()
    }

    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        self.inner.apply_grads(grads)
    }

    /// The gradients at the weights away from the variables'.
    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<Pair<'g>> {
        let graph = loss.graph();
        let first = self.inner.compute_gradients(loss);
        if !check_wrapper(&self.with(()), graph) {
            return first;
        }
        let away = graph.on_behalf("sam", || self.away(&full_precision(&first)));
        let instead: Vec<_> = away.iter().map(|(variable, at)| (variable.value(), *at)).collect();
        let second = graph.replace(&[loss], &instead);
        let at: Vec<_> = away.iter().map(|(_, at)| *at).collect();
        let mut grads = graph.gradients(&second, &at, None).into_iter();
        let again = |(grad, variable): Pair<'g>| (grad.and_then(|_| grads.next()?), variable);
        first.into_iter().map(again).collect()
    }

    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        self.inner.evaluation_value(variable)
    }
}

impl Wrapper for Sam<()> {
    const ABOUT: About = About {
        name: "sam",
        rate: 1.0,
        formula: "the gradient at w + rho g / norm(g), where g is that at w",
        paper: "Foret et al. 2021, algorithm 1",
        peers: "optax has no default.",
    };

    fn defaults() -> Self {
        Self::new((), 0.05)
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {"rho": rho in FROM_0}
    }

    fn around(&self, inner: Box<dyn Optimizer>, _: &Schedule) -> Box<dyn Optimizer> {
        Box::new(self.with(inner))
    }
}
