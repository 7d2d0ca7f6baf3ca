//! Descent by the gradient's sign (Bernstein et al. 2018, arXiv 1802.04434, algorithm 1).
//!
//! ```text
//! w <- w - lr sign(g)
//! ```

use crate::descent::Descent;
use crate::options::{About, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::sign;

/// Steps of one size, whatever the size of the gradient, as `optax.sign_sgd`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, SignSgd};
///
/// let optimizer = SignSgd::new(1e-3);
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SignSgd {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl SignSgd {
    /// No weight decay.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self { learning_rate: learning_rate.into(), weight_decay: 0.0.into() }
    }
}

impl Optimizer for SignSgd {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let direction = sign(step.grad);
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Listed for SignSgd {
    const ABOUT: About = About {
        name: "sign_sgd",
        rate: 1e-3,
        formula: "\
            w <- w - lr sign(g)",
        paper: "Bernstein et al. 2018, arXiv 1802.04434, algorithm 1",
        peers: "optax has no options either; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {}
    }
}
