//! Delayed gradients, as asynchronous workers of a parameter server produce them, but drawn from a
//! seed.
//!
//! While such a worker computes a gradient, other workers update the variables, so it hands in a
//! gradient of older values. Here the update at step t applies the gradient of step t - k, where d
//! is the staleness depth and k is drawn evenly from 0..=min(d, t). All variables share one draw
//! per step, as each step takes the gradients of one worker (Ho et al. 2013, "More Effective
//! Distributed ML via a Stale Synchronous Parallel Parameter Server": staleness is bounded).
//!
//! ```text
//! ring[t mod (d+1)] <- g        update with ring[(t - k) mod (d+1)]
//! ```
//!
//! t counts the updates of the variable. The draws follow from the session's seed, so a run can be
//! repeated on any layout.

use crate::optimizer::apply_each;
use crate::options::{About, Setting, Wrapper, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Dimension, Shape, dim};
use mesh_ops::elementwise::{cast, equal, floor, minimum, modulo, select};
use mesh_ops::random::random_uniform;
use mesh_ops::{gather, range};
use std::fmt;

const RING: &str = "delayed_gradients";
const COUNT: &str = "delayed_count";

/// Another optimizer that gets gradients up to `depth` steps old.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Delayed, Optimizer, Sgd};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let stale = Delayed::new(Sgd::new(0.1), 2);
/// g.function("train", [input], [loss], stale.minimize(loss));
/// let kernel = g.trainable_variables()[0];
/// assert_eq!(stale.slot(kernel, "delayed_gradients").unwrap().shape().size(), 3 * 8 * 3);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Delayed {
    optimizer: Box<dyn Optimizer>,
    depth: usize,
}

impl Delayed {
    /// `optimizer` gets gradients from 0 to `depth` steps old. With depth 0 no buffer is kept and
    /// `optimizer` works as it is.
    pub fn new(optimizer: impl Optimizer + 'static, depth: usize) -> Self {
        Self { optimizer: Box::new(optimizer), depth }
    }

    /// The dim of the ring buffer.
    fn ring(&self) -> Dimension {
        dim("staleness", self.depth.saturating_add(1))
    }

    /// `apply_grad` with a given random number `drawn` in [0, 1), which decides how old the
    /// gradient is.
    fn apply_late<'g>(
        &self,
        grad: Tensor<'g>,
        variable: Variable<'g>,
        drawn: Tensor<'g>,
    ) -> Vec<Update<'g>> {
        let (graph, ring) = (variable.graph(), self.ring());
        let dims = std::iter::once(ring).chain(variable.shape().iter().collect::<Vec<_>>());
        let slot = variable.slot(RING, dims, grad.dtype(), Initializer::ZEROS);
        let count = variable.slot(COUNT, Shape::scalar(), DType::I32, Initializer::ZEROS);
        let (t, size) = (count.stored(), graph.scalar(ring.size as f64, DType::I32));
        let at = range(graph, ring, DType::I32).relayout(variable.slots_key());
        let kept = select(equal(at, modulo(t, size)), grad, slot.stored());
        let late = gather(kept, modulo(t - self.lateness(t, drawn), size), ring);
        let mut updates = self.optimizer.apply_grad(late, variable);
        updates.extend([slot.assign(kept), count.assign_add(graph.scalar(1.0, DType::I32))]);
        updates
    }

    /// The number k of steps, from 0..=min(depth, t).
    fn lateness<'g>(&self, t: Tensor<'g>, drawn: Tensor<'g>) -> Tensor<'g> {
        let depth = t.graph().scalar(self.depth as f64, DType::I32);
        let most = cast(minimum(depth, t), DType::F64);
        cast(minimum(floor(drawn * (most + 1.0)), most), DType::I32)
    }
}

impl fmt::Debug for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delayed").field("depth", &self.depth).finish_non_exhaustive()
    }
}

fn draw<'g>(variable: Variable<'g>) -> Tensor<'g> {
    random_uniform(variable.graph(), [], 0.0, 1.0, DType::F64)
}

impl Optimizer for Delayed {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        match self.depth {
            0 => self.optimizer.apply_grad(grad, variable),
            _ => self.apply_late(grad, variable, draw(variable)),
        }
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let own: &[_] = if self.depth == 0 { &[] } else { &[RING, COUNT] };
        self.optimizer.slot_names().into_iter().chain(own.iter().copied()).collect()
    }

    /// All variables get gradients of the same step.
    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[(Option<Tensor<'g>>, Variable<'g>)]) -> Vec<Update<'g>> {
        let Some((_, first)) = grads.first() else { return Vec::new() };
        if self.depth == 0 {
            return self.optimizer.apply_grads(grads);
        }
        let drawn = first.graph().on_behalf("staleness", || draw(*first));
        apply_each(grads, |grad, variable| self.apply_late(grad, variable, drawn))
    }

    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<(Option<Tensor<'g>>, Variable<'g>)> {
        self.optimizer.compute_gradients(loss)
    }

    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        self.optimizer.evaluation_value(variable)
    }
}

/// The options of [`Delayed`].
#[derive(Clone, Debug)]
pub(crate) struct Staleness {
    depth: u64,
}

impl Wrapper for Staleness {
    const ABOUT: About = About {
        name: "delayed",
        rate: 1.0,
        formula: "the inner optimizer with the gradient of step t - k, k drawn from 0..=min(depth, t)",
        paper: "Ho et al. 2013, bounded staleness",
        peers: "PyTorch and optax have none.",
    };

    fn defaults() -> Self {
        Self { depth: 1 }
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {"depth": depth}
    }

    fn around(&self, inner: Box<dyn Optimizer>, _: &Schedule) -> Box<dyn Optimizer> {
        Box::new(Delayed::new(inner, usize::try_from(self.depth).unwrap_or(usize::MAX)))
    }
}
