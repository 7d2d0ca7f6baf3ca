//! Gradient descent with momentum (Polyak 1964) and Nesterov's form (Sutskever et al. 2013), both
//! as PyTorch's `SGD` defines them:
//!
//! ```text
//! v <- mu v + g                 w <- w - lr v             (with the new v)
//!                               w <- w - lr (g + mu v)    (Nesterov)
//! ```
//!
//! The learning rate stands outside v, so a rate that changes acts at once.

use crate::{LearningRate, Optimizer};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_ops::elementwise::cast;

const VELOCITY: &str = "momentum";

/// Gradient descent with momentum.
#[derive(Clone, Debug)]
pub struct Momentum {
    /// Step size.
    pub learning_rate: LearningRate,
    /// What remains of the velocity after a step.
    pub momentum: f64,
    /// Whether the step looks ahead along the velocity.
    pub nesterov: bool,
}

impl Momentum {
    /// Momentum without Nesterov's look ahead.
    pub fn new(learning_rate: impl Into<LearningRate>, momentum: f64) -> Self {
        Self { learning_rate: learning_rate.into(), momentum, nesterov: false }
    }
}

impl Optimizer for Momentum {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let slot = variable.slot(VELOCITY, variable.shape(), grad.dtype(), Initializer::ZEROS);
        let velocity = slot.stored() * self.momentum + grad;
        let step = if self.nesterov { grad + velocity * self.momentum } else { velocity };
        let rate = self.learning_rate.at(grad.graph(), grad.dtype());
        let delta = cast(step * rate, variable.dtype());
        vec![variable.assign_sub(delta), slot.assign(velocity)]
    }
    fn slot_names(&self) -> Vec<&'static str> {
        vec![VELOCITY]
    }
}
