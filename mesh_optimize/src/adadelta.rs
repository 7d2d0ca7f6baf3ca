//! Adadelta (Zeiler 2012, arXiv 1212.5701, algorithm 1).
//!
//! ```text
//! v <- rho v + (1 - rho) g²
//! u = sqrt(d + eps) / sqrt(v + eps) g
//! d <- rho d + (1 - rho) u²
//! w <- w - lr u
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{sqrt, square};

const SECOND: &str = "adadelta_v";
const STEPS: &str = "adadelta_d";

/// The Adadelta optimizer, as `torch.optim.Adadelta` and `optax.adadelta`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Adadelta, Optimizer};
///
/// let optimizer = Adadelta { rho: 0.95.into(), ..Adadelta::new(1.0) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adadelta {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of both averages.
    pub rho: Schedule,
    /// A small number that is added under both roots.
    pub epsilon: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Adadelta {
    /// PyTorch's and optax's defaults: rho 0.9, epsilon 1e-6. Decay of weights is coupled.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            rho: 0.9.into(),
            epsilon: 1e-6.into(),
            weight_decay: WeightDecay::coupled(0.0),
        }
    }
}

impl Optimizer for Adadelta {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let (g, steps) = (step.grad, step.slot(STEPS));
        let v = step.average(step.slot(SECOND), &self.rho, square(g));
        let update = sqrt(steps.stored() + &self.epsilon) / sqrt(v + &self.epsilon) * g;
        step.average(steps, &self.rho, square(update));
        step.end(update, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![SECOND, STEPS]
    }
}

impl Listed for Adadelta {
    const ABOUT: About = About {
        name: "adadelta",
        rate: 1.0,
        formula: "\
            v <- rho v + (1 - rho) g²\n\
            u = sqrt(d + eps) / sqrt(v + eps) g\n\
            d <- rho d + (1 - rho) u²\n\
            w <- w - lr u",
        paper: "Zeiler 2012, arXiv 1212.5701, algorithm 1",
        peers: "PyTorch's and optax's defaults.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "rho": rho in BELOW_1,
            "epsilon": epsilon in FROM_0,
        }
    }
}
