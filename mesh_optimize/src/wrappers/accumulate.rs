//! Gradients of several calls, applied at once, as by `optax.MultiSteps`:
//!
//! ```text
//! a <- a + (g - a) / n in the n-th call, n = 1..k           (the mean so far; or a <- a + g)
//! in the k-th: w <- what the inner optimizer makes of it with the gradient a;  a <- 0
//! ```

use super::{counter, keeper, only_if};
use crate::clip::{Pair, full_precision};
use crate::options::{About, COUNT, Setting, Wrapper, check_wrapper, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::{cast, equal, select};

const GRADIENT: &str = "accumulated";
const CALLS: &str = "accumulated_calls";
const APPLIED: &str = "accumulated_applied";

/// Another optimizer, which is applied in every `calls`-th call, to the mean of the gradients since.
///
/// In between, variables and the inner optimizer's slots stay as they are. The inner optimizer's schedules
/// count the calls in which it is applied; [`Graph::step`](mesh_core::graph::Graph::step) counts all.
/// Memory is one gradient more, and lasts from call to call, so the parts may be batches of their own;
/// [`microbatches`](crate::microbatches) accumulates within one call.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Accumulate, AdamW, Optimizer};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// g.function("train", [input], [loss], Accumulate::new(AdamW::new(1e-3), 4).minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Accumulate<O = Box<dyn Optimizer>> {
    /// The optimizer that is applied.
    pub inner: O,
    /// The number of calls to each application.
    pub calls: u64,
    /// Whether gradients are averaged; otherwise they are added up.
    pub mean: bool,
}

impl<O> Accumulate<O> {
    /// With the mean of `calls` gradients, optax's default.
    pub fn new(inner: O, calls: u64) -> Self {
        Self { inner, calls, mean: true }
    }

    /// The same around another optimizer.
    fn with<P>(&self, inner: P) -> Accumulate<P> {
        Accumulate { inner, calls: self.calls, mean: self.mean }
    }

    /// What has been accumulated with this gradient, and the slot that keeps it.
    #[track_caller]
    fn accumulated<'g>(
        &self,
        grad: Tensor<'g>,
        variable: Variable<'g>,
        before: Tensor<'g>,
    ) -> (Tensor<'g>, Variable<'g>) {
        let slot = variable.slot(GRADIENT, variable.shape(), grad.dtype(), Initializer::ZEROS);
        let sum = slot.stored();
        let sum = match self.mean {
            true => sum + (grad - sum) / cast(before + 1.0, grad.dtype()),
            false => sum + grad,
        };
        (sum, slot)
    }
}

impl<O: Optimizer> Optimizer for Accumulate<O> {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        self.apply_grads(&[(Some(grad), variable)])
    }

    fn slot_names(&self) -> Vec<&'static str> {
        self.inner.slot_names().into_iter().chain([GRADIENT, CALLS, APPLIED]).collect()
    }

    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        let Some(first) = keeper(grads) else { return self.inner.apply_grads(grads) };
        let graph = first.graph();
        if !check_wrapper(&self.with(()), graph) {
            return Vec::new();
        }
        let number = |x: f64| graph.scalar(x, DType::I32);
        graph.on_behalf("accumulation over calls", || {
            let (calls, applied) = (counter(first, CALLS), counter(first, APPLIED));
            let last = equal(calls.stored(), number((self.calls - 1) as f64));
            let mut sums = full_precision(grads);
            let mut updates = Vec::new();
            for (grad, variable) in &mut sums {
                let Some(grad) = grad else { continue };
                let (sum, slot) = self.accumulated(*grad, *variable, calls.stored());
                updates.push(slot.assign(select(last, sum.fill_like(0.0), sum)));
                *grad = sum;
            }
            let inner = {
                let _step = graph.stepped(applied.stored());
                self.inner.apply_grads(&sums)
            };
            updates.extend(only_if(last, inner));
            updates.push(calls.assign(select(last, number(0.0), calls.stored() + 1.0)));
            updates.push(applied.assign_add(select(last, number(1.0), number(0.0))));
            updates
        })
    }

    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<Pair<'g>> {
        self.inner.compute_gradients(loss)
    }

    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        self.inner.evaluation_value(variable)
    }
}

impl Wrapper for Accumulate<()> {
    const ABOUT: About = About {
        name: "accumulate",
        rate: 1.0,
        formula: "a <- a + (g - a) / n in the n-th of k calls; in the k-th the inner optimizer with a, and a <- 0",
        paper: "Ott et al. 2018, section 3.2",
        peers: "optax has no default.",
    };

    fn defaults() -> Self {
        Self::new((), 4)
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {"calls": calls in COUNT, "mean": mean}
    }

    fn around(&self, inner: Box<dyn Optimizer>, _: &Schedule) -> Box<dyn Optimizer> {
        Box::new(self.with(inner))
    }
}
