//! An exponential moving average of the weights, for evaluation: Polyak & Juditsky 1992; Tarvainen & Valpola
//! 2017 (arXiv 1703.01780), section 3.
//!
//! ```text
//! w <- what the inner optimizer makes of it
//! e <- d e + (1 - d) w          e / (1 - d^t) after t updates, or e beginning with the w before the first
//! ```
//!
//! The first is `optax.ema` of the weights with `debias`, the second `tf.train.ExponentialMovingAverage`.

use super::{among_slots, at_first, changed, count, counter, for_computing, like};
use crate::clip::Pair;
use crate::options::{About, BELOW_1, Setting, Wrapper, check_wrapper, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::{cast, equal, pow, select};

const AVERAGE: &str = "ema";
const COUNT: &str = "ema_t";

/// Another optimizer, with an average of the weights to evaluate with.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{AdamW, Ema, Optimizer};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let ema = Ema::new(AdamW::new(1e-3), 0.999);
/// g.function("train", [input], [loss], ema.minimize(loss));
/// // The same loss with the averages in the place of the weights.
/// let averaged = ema.for_evaluation(&[loss])[0];
/// g.function("evaluate", [input], [averaged], []);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ema<O = Box<dyn Optimizer>> {
    /// The optimizer that changes the weights.
    pub inner: O,
    /// The fraction of the average that a step keeps.
    pub decay: Schedule,
    /// Whether the average begins with zeros and is corrected for that, or begins with the weights before
    /// the first step.
    pub debias: bool,
}

impl<O> Ema<O> {
    /// An average from zeros with the correction. (TensorFlow's has none.)
    pub fn new(inner: O, decay: impl Into<Schedule>) -> Self {
        Self { inner, decay: decay.into(), debias: true }
    }

    /// The same around another optimizer.
    fn with<P>(&self, inner: P) -> Ema<P> {
        Ema { inner, decay: self.decay.clone(), debias: self.debias }
    }

    #[track_caller]
    fn average<'g>(&self, update: Update<'g>) -> Vec<Update<'g>> {
        let variable = update.variable();
        let (slot, t) = (like(variable, AVERAGE), counter(variable, COUNT));
        let before = match self.debias {
            true => slot.stored(),
            false => at_first(t, among_slots(variable.stored(), variable), slot.stored()),
        };
        let after = self.decay.mixed(before, among_slots(update.value(), variable));
        vec![update, slot.assign(after), count(t)]
    }
}

impl<O: Optimizer> Ema<O> {
    #[track_caller]
    fn averaged<'g>(&self, updates: Vec<Update<'g>>, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        let Some((_, variable)) = grads.first() else { return updates };
        if !check_wrapper(&self.with(()), variable.graph()) {
            return Vec::new();
        }
        changed(updates, grads, "average", |update| self.average(update))
    }
}

impl<O: Optimizer> Optimizer for Ema<O> {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        self.averaged(self.inner.apply_grad(grad, variable), &[(Some(grad), variable)])
    }

    fn slot_names(&self) -> Vec<&'static str> {
        self.inner.slot_names().into_iter().chain([AVERAGE, COUNT]).collect()
    }

    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        self.averaged(self.inner.apply_grads(grads), grads)
    }

    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<Pair<'g>> {
        self.inner.compute_gradients(loss)
    }

    /// The average; before the first update the variable's value.
    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        let (slot, t) = (like(variable, AVERAGE), counter(variable, COUNT));
        let average = if self.debias {
            let (graph, updates) = (variable.graph(), t.stored());
            let decay = self.decay.at(graph, DType::F64);
            let missing = pow(decay, cast(updates, DType::F64));
            let part = select(equal(updates, 0.0), 1.0, 1.0 - missing);
            slot.stored() / cast(part, slot.dtype())
        } else {
            slot.stored()
        };
        let own = among_slots(variable.stored(), variable);
        for_computing(at_first(t, own, average), variable)
    }
}

impl Wrapper for Ema<()> {
    const ABOUT: About = About {
        name: "ema",
        rate: 1.0,
        formula: "e <- d e + (1 - d) w        evaluations use e / (1 - d^t)",
        paper: "Polyak & Juditsky 1992",
        peers: "optax: the same, without a default; TensorFlow has no correction.",
    };

    fn defaults() -> Self {
        Self::new((), 0.999)
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {"decay": decay in BELOW_1, "debias": debias}
    }

    fn around(&self, inner: Box<dyn Optimizer>, _: &Schedule) -> Box<dyn Optimizer> {
        Box::new(self.with(inner))
    }
}
