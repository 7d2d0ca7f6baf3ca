//! Schedule-free training: Defazio et al. 2024 (arXiv 2405.15682), algorithm 1, as
//! `optax.contrib.schedule_free`; t counts the updates of the variable from 1.
//!
//! ```text
//! z <- z + what the inner optimizer would add to y                     (begins with the first y)
//! c_t = l_t^p / sum of l_i^p for i <= t                                (l_t: the largest rate so far)
//! x <- (1 - c_t) x + c_t z                                             (weights to evaluate with)
//! y <- b x + (1 - b) z                                                 (weights to train at: the variable)
//! ```
//!
//! x is not kept: it is (y - (1 - b) z) / b. As in optax the rate of c_t is that of the step after, which
//! differs from the inner optimizer's during a warm-up only.

use super::{among_slots, at_first, changed, count, counter, for_computing, like};
use crate::clip::Pair;
use crate::options::{ABOVE_0_TO_1, About, FROM_0, Setting, Wrapper, check_wrapper, settings};
use crate::{Optimizer, Schedule};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Shape};
use mesh_ops::elementwise::{cast, equal, maximum, pow, select};

const Z: &str = "schedule_free_z";
const SUM: &str = "schedule_free_sum";
const RATE: &str = "schedule_free_rate";
const COUNT: &str = "schedule_free_t";

/// Another optimizer, whose steps are averaged instead of being made smaller and smaller.
///
/// The inner optimizer has no momentum of its own (`beta1: 0.0` of Adam) and the same rate, which may have
/// a warm-up and does not fall. The model is evaluated at [`for_evaluation`](Optimizer::for_evaluation).
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{AdamW, Optimizer, ScheduleFree, schedule};
///
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let rate = schedule::with_warmup(2.5e-3, 100);
/// let adam = AdamW { beta1: 0.0.into(), ..AdamW::new(rate.clone()) };
/// let schedule_free = ScheduleFree::new(adam, rate);
/// g.function("train", [input], [loss], schedule_free.minimize(loss));
/// g.function("evaluate", [input], [schedule_free.for_evaluation(&[loss])[0]], []);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScheduleFree<O = Box<dyn Optimizer>> {
    /// The optimizer whose steps are averaged.
    pub inner: O,
    /// Its learning rate, which weights the average.
    pub learning_rate: Schedule,
    /// How far gradients are taken towards the average, from z: `b` above, the paper's beta.
    pub beta: f64,
    /// The power of the rate by which steps are weighted.
    pub power: f64,
}

impl<O> ScheduleFree<O> {
    /// The defaults of the paper and of optax: beta 0.9, power 2.
    pub fn new(inner: O, learning_rate: impl Into<Schedule>) -> Self {
        Self { inner, learning_rate: learning_rate.into(), beta: 0.9, power: 2.0 }
    }

    /// The same around another optimizer.
    fn with<P>(&self, inner: P) -> ScheduleFree<P> {
        ScheduleFree {
            inner,
            learning_rate: self.learning_rate.clone(),
            beta: self.beta,
            power: self.power,
        }
    }

    /// The weights to evaluate with, x above, at these y and z.
    #[track_caller]
    fn x<'g>(&self, y: Tensor<'g>, z: Tensor<'g>) -> Tensor<'g> {
        (y - z * (1.0 - self.beta)) / self.beta
    }

    /// c_t, and the updates of what it is computed from.
    #[track_caller]
    fn share<'g>(&self, variable: Variable<'g>) -> (Tensor<'g>, [Update<'g>; 2]) {
        let slot = |name| variable.slot(name, Shape::scalar(), DType::F64, Initializer::ZEROS);
        let (sum, largest, graph) = (slot(SUM), slot(RATE), variable.graph());
        let rate = self.learning_rate.at_step(cast(graph.step() + 1.0, DType::F64));
        let rate = maximum(largest.stored(), rate);
        let weight = pow(rate, graph.scalar(self.power, DType::F64));
        let total = sum.stored() + weight;
        let share = weight / select(equal(total, 0.0), 1.0, total);
        (share, [sum.assign(total), largest.assign(rate)])
    }

    #[track_caller]
    fn step<'g>(&self, update: Update<'g>) -> Vec<Update<'g>> {
        let variable = update.variable();
        let (slot, t) = (like(variable, Z), counter(variable, COUNT));
        let y = among_slots(variable.stored(), variable);
        let before = at_first(t, y, slot.stored());
        let z = before + among_slots(update.change(), variable);
        let (share, updates) = self.share(variable);
        let share = cast(share, z.dtype());
        let x = self.x(y, before) * (1.0 - share) + z * share;
        let weights = cast(x * self.beta + z * (1.0 - self.beta), variable.dtype());
        [variable.assign(weights), slot.assign(z), count(t)].into_iter().chain(updates).collect()
    }

    #[track_caller]
    fn averaged<'g>(&self, updates: Vec<Update<'g>>, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        let Some((_, variable)) = grads.first() else { return updates };
        if !check_wrapper(&self.with(()), variable.graph()) {
            return Vec::new();
        }
        changed(updates, grads, "schedule-free step", |update| self.step(update))
    }
}

impl<O: Optimizer> Optimizer for ScheduleFree<O> {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        self.averaged(self.inner.apply_grad(grad, variable), &[(Some(grad), variable)])
    }

    fn slot_names(&self) -> Vec<&'static str> {
        self.inner.slot_names().into_iter().chain([Z, SUM, RATE, COUNT]).collect()
    }

    #[track_caller]
    fn apply_grads<'g>(&self, grads: &[Pair<'g>]) -> Vec<Update<'g>> {
        self.averaged(self.inner.apply_grads(grads), grads)
    }

    #[track_caller]
    fn compute_gradients<'g>(&self, loss: Tensor<'g>) -> Vec<Pair<'g>> {
        self.inner.compute_gradients(loss)
    }

    /// x above.
    #[track_caller]
    fn evaluation_value<'g>(&self, variable: Variable<'g>) -> Tensor<'g> {
        let y = among_slots(variable.stored(), variable);
        let x = self.x(y, like(variable, Z).stored());
        for_computing(at_first(counter(variable, COUNT), y, x), variable)
    }
}

impl Wrapper for ScheduleFree<()> {
    const ABOUT: About = About {
        name: "schedule_free",
        rate: 1.0,
        formula: "z <- z + step        x <- (1 - c) x + c z        y <- b x + (1 - b) z        evaluations use x",
        paper: "Defazio et al. 2024, algorithm 1",
        peers: "optax: the same.",
    };

    fn defaults() -> Self {
        Self::new((), 0.0)
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {"beta": beta in ABOVE_0_TO_1, "power": power in FROM_0}
    }

    fn around(&self, inner: Box<dyn Optimizer>, rate: &Schedule) -> Box<dyn Optimizer> {
        Box::new(ScheduleFree { learning_rate: rate.clone(), ..self.with(inner) })
    }
}
