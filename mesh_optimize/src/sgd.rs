//! Stochastic gradient descent (Robbins & Monro 1951): `w <- w - lr (g + wd w)`.

use crate::descent::Descent;
use crate::options::{About, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};

/// Stochastic gradient descent.
#[derive(Clone, Debug)]
pub struct Sgd {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of weights; coupled or not, it is the same.
    pub weight_decay: WeightDecay,
}

impl Sgd {
    /// Descent with a learning rate.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{Optimizer, Sgd};
    ///
    /// g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self { learning_rate: learning_rate.into(), weight_decay: WeightDecay::coupled(0.0) }
    }
}

impl Optimizer for Sgd {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let direction = step.grad;
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Listed for Sgd {
    const ABOUT: About = About {
        name: "sgd",
        rate: 1e-1,
        formula: "w <- w - lr (g + wd w)",
        paper: "Robbins & Monro 1951",
        peers: "PyTorch's lr is 1e-3; optax has none.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {}
    }
}
