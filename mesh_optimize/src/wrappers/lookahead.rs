//! Lookahead: Zhang et al. 2019 (arXiv 1907.08610), algorithm 1, as `optax.lookahead`.
//!
//! ```text
//! w <- what the inner optimizer makes of it                 (fast weights, which gradients are taken at)
//! every k steps: s <- s + a (w - s), w <- s                 (slow weights, which begin with the first w)
//! ```

use super::{among_slots, at_first, changed, count, counter, for_computing, like};
use crate::clip::Pair;
use crate::options::{About, COUNT, Setting, TO_1, Wrapper, check_wrapper, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::{cast, equal, modulo, select};

const SLOW: &str = "lookahead_slow";
const CALLS: &str = "lookahead_t";

/// Another optimizer, whose weights every so many steps go back a part of the way that they have come.
///
/// Evaluations use the slow weights.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Adam, Lookahead, Optimizer};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let lookahead = Lookahead::new(Adam::new(1e-3), 6, 0.5);
/// g.function("train", [input], [loss], lookahead.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lookahead<O = Box<dyn Optimizer>> {
    /// The optimizer of the fast weights.
    pub inner: O,
    /// After how many steps the slow weights follow, and the fast ones return to them.
    pub period: u64,
    /// The part of the way to the fast weights that the slow ones go.
    pub slow_step: Schedule,
    /// Whether the inner optimizer's slots begin anew then.
    pub reset: bool,
}

impl<O> Lookahead<O> {
    /// The inner optimizer's slots go on. (The paper's experiments have a period of 5 or 10 and a step of
    /// 0.5 or 0.8.)
    pub fn new(inner: O, period: u64, slow_step: impl Into<Schedule>) -> Self {
        Self { inner, period, slow_step: slow_step.into(), reset: false }
    }

    /// The same around another optimizer.
    fn with<P>(&self, inner: P) -> Lookahead<P> {
        Lookahead {
            inner,
            period: self.period,
            slow_step: self.slow_step.clone(),
            reset: self.reset,
        }
    }

    /// Whether the slow weights of this variable follow in this call.
    #[track_caller]
    fn is_due<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        let period = variable.graph().scalar(self.period as f64, DType::I32);
        equal(modulo(counter(variable, CALLS).stored() + 1.0, period), 0.0)
    }

    #[track_caller]
    fn follow<'g>(&self, update: Update<'g>) -> Vec<Update<'g>> {
        let variable = update.variable();
        let (slot, t) = (like(variable, SLOW), counter(variable, CALLS));
        let fast = among_slots(update.value(), variable);
        let slow = at_first(t, among_slots(variable.stored(), variable), slot.stored());
        let due = self.is_due(variable);
        let slow = select(due, slow + (fast - slow) * &self.slow_step, slow);
        let weights = cast(select(due, slow, fast), variable.dtype());
        vec![variable.assign(weights), slot.assign(slow), count(t)]
    }

    #[track_caller]
    fn following<'g>(&self, updates: Vec<Update<'g>>, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        let Some((_, variable)) = grads.first() else { return updates };
        if !check_wrapper(&self.with(()), variable.graph()) {
            return Vec::new();
        }
        let trained = |update: &Update<'g>| {
            grads.iter().any(|(_, variable)| variable.id() == update.variable().id())
        };
        let (weights, slots): (Vec<_>, Vec<_>) = updates.into_iter().partition(trained);
        let first = weights.first().map(|update| update.variable()).filter(|_| self.reset);
        let slots = match first {
            Some(first) => self.reset_slots(slots, first),
            None => slots,
        };
        let weights = changed(weights, grads, "lookahead", |update| self.follow(update));
        weights.into_iter().chain(slots).collect()
    }

    /// The updates of the inner optimizer's slots, which begin anew when the slow weights follow.
    #[track_caller]
    fn reset_slots<'g>(&self, slots: Vec<Update<'g>>, first: Variable<'g>) -> Vec<Update<'g>> {
        let graph = first.graph();
        graph.on_behalf("lookahead", || {
            let due = self.is_due(first);
            let reset = |update: Update<'g>| {
                let slot = update.variable();
                let Initializer::Constant(start) = slot.initializer() else { return update };
                let value = update.value();
                slot.assign(select(due, value.fill_like(start), value))
            };
            slots.into_iter().map(reset).collect()
        })
    }
}

impl<O: Optimizer> Optimizer for Lookahead<O> {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        self.following(self.inner.apply_grad(grad, variable), &[(Some(grad), variable)])
    }

    fn slot_names(&self) -> Vec<&'static str> {
        self.inner.slot_names().into_iter().chain([SLOW, CALLS]).collect()
    }

    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        self.following(self.inner.apply_grads(grads), grads)
    }

    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<Pair<'g>> {
        self.inner.compute_gradients(loss)
    }

    /// The slow weights.
    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        let own = among_slots(variable.stored(), variable);
        let slow = like(variable, SLOW).stored();
        for_computing(at_first(counter(variable, CALLS), own, slow), variable)
    }
}

impl Wrapper for Lookahead<()> {
    const ABOUT: About = About {
        name: "lookahead",
        rate: 1.0,
        formula: "every k steps s <- s + a (w - s), w <- s        evaluations use s",
        paper: "Zhang et al. 2019, algorithm 1",
        peers: "optax has no defaults.",
    };

    fn defaults() -> Self {
        Self::new((), 6, 0.5)
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {"period": period in COUNT, "slow_step": slow_step in TO_1, "reset": reset}
    }

    fn around(&self, inner: Box<dyn Optimizer>, _: &Schedule) -> Box<dyn Optimizer> {
        Box::new(self.with(inner))
    }
}
