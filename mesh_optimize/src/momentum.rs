//! Gradient descent with momentum (Polyak 1964) and Nesterov's form (Sutskever et al. 2013), both
//! as PyTorch's `SGD` defines them:
//!
//! ```text
//! v <- mu v + g                 w <- w - lr v             (with the new v)
//!                               w <- w - lr (g + mu v)    (Nesterov)
//! ```
//!
//! v does not contain the learning rate, so a new rate has its effect at once.

use crate::range::{BELOW_1, in_range};
use crate::{LearningRate, Optimizer};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_ops::elementwise::cast;

const VELOCITY: &str = "momentum";

/// Gradient descent with momentum.
#[derive(Clone, Debug)]
pub struct Momentum {
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The fraction of the velocity that is kept in each step.
    pub momentum: f64,
    /// Whether to use Nesterov's form.
    pub nesterov: bool,
}

impl Momentum {
    /// Momentum without Nesterov's form.
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
    pub fn new(learning_rate: impl Into<LearningRate>, momentum: f64) -> Self {
        Self { learning_rate: learning_rate.into(), momentum, nesterov: false }
    }
}

impl Optimizer for Momentum {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        if !in_range(grad.graph(), "momentum", &[("momentum", self.momentum, BELOW_1)]) {
            return Vec::new();
        }
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
