//! Gradient descent with momentum (Polyak 1964) and Nesterov's form (Sutskever et al. 2013), as PyTorch's
//! `SGD` and optax's `sgd` define them:
//!
//! ```text
//! v <- mu v + (1 - dampening) g        (at first v <- g)
//! w <- w - lr v        (with the new v)        Nesterov: w <- w - lr (g + mu v)
//! ```
//!
//! v does not contain the learning rate, so a new rate has its effect at once.

use crate::descent::Descent;
use crate::options::{About, BELOW_1, Listed, Setting, TO_1, decayed_settings};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_core::names::DType;
use mesh_ops::elementwise::{greater, select};

const VELOCITY: &str = "momentum";
const COUNT: &str = "momentum_t";

/// Gradient descent with momentum.
#[derive(Clone, Debug)]
pub struct Momentum {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The fraction of the velocity that is kept in each step.
    pub momentum: Schedule,
    /// Whether to use Nesterov's form.
    pub nesterov: bool,
    /// The fraction of each gradient but the first that is left out of the velocity (PyTorch). A slot then
    /// counts the updates.
    pub dampening: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Momentum {
    /// Momentum without Nesterov's form, dampening and decay; decay of weights is coupled, as PyTorch has it.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{Momentum, Optimizer};
    ///
    /// let nesterov = Momentum { nesterov: true, ..Momentum::new(0.1, 0.9) };
    /// g.function("train", [x], [loss], nesterov.minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(learning_rate: impl Into<Schedule>, momentum: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            momentum: momentum.into(),
            nesterov: false,
            dampening: 0.0.into(),
            weight_decay: WeightDecay::coupled(0.0),
        }
    }
}

impl Optimizer for Momentum {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let (g, slot) = (step.grad, step.slot(VELOCITY));
        let mut new = g;
        if !self.dampening.is(0.0) {
            let started = greater(step.count(COUNT), step.graph().scalar(1.0, DType::F64));
            new = select(started, self.dampening.rest_times(g), g);
        }
        let velocity = step.trace(slot, &self.momentum, new);
        let direction = if self.nesterov { g + velocity * &self.momentum } else { velocity };
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        [VELOCITY].into_iter().chain((!self.dampening.is(0.0)).then_some(COUNT)).collect()
    }
}

impl Listed for Momentum {
    const ABOUT: About = About {
        name: "momentum",
        rate: 1e-2,
        formula: "\
            v <- mu v + (1 - dampening) g, at first g\n\
            w <- w - lr v        Nesterov: w <- w - lr (g + mu v)",
        paper: "Polyak 1964; Sutskever et al. 2013",
        peers: "PyTorch's and optax's default is no momentum; optax has neither dampening nor decay here.",
    };

    fn of_rate(rate: Schedule) -> Self {
        Self::new(rate, 0.9)
    }

    fn with_rate(self, learning_rate: Schedule) -> Self {
        Self { learning_rate, ..self }
    }

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "momentum": momentum in BELOW_1,
            "nesterov": nesterov,
            "dampening": dampening in TO_1,
        }
    }
}
