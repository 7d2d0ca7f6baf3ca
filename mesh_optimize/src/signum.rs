//! Descent by the sign of averaged gradients (Bernstein et al. 2018, arXiv 1802.04434, algorithm 2).
//!
//! ```text
//! m <- b m + (1 - b) g
//! w <- w - lr sign(m)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::sign;

const FIRST: &str = "signum_m";

/// The Signum optimizer, as `optax.signum`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, Signum};
///
/// let optimizer = Signum { beta: 0.95.into(), ..Signum::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Signum {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the average.
    pub beta: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Signum {
    /// optax's default: beta 0.9.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self { learning_rate: learning_rate.into(), beta: 0.9.into(), weight_decay: 0.0.into() }
    }
}

impl Optimizer for Signum {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let g = step.grad;
        let average = step.average(step.slot(FIRST), &self.beta, g);
        step.end(sign(average), &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST]
    }
}

impl Listed for Signum {
    const ABOUT: About = About {
        name: "signum",
        rate: 1e-3,
        formula: "\
            m <- b m + (1 - b) g\n\
            w <- w - lr sign(m)",
        paper: "Bernstein et al. 2018, arXiv 1802.04434, algorithm 2",
        peers: "optax's default; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta": beta in BELOW_1,
        }
    }
}
