//! Lion, the sign of an average (Chen et al. 2023, arXiv 2302.06675, algorithm 2).
//!
//! ```text
//! w <- w - lr (sign(b1 m + (1 - b1) g) + wd w)
//! m <- b2 m + (1 - b2) g
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::sign;

const FIRST: &str = "lion_m";

/// The Lion optimizer, as `optax.lion`. Its steps have one size, so its rate is three to ten times
/// smaller than Adam's.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Lion, Optimizer};
///
/// let optimizer = Lion { beta1: 0.95.into(), ..Lion::new(1e-4) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lion {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// How much of the average is in the direction.
    pub beta1: Schedule,
    /// The decay of the average.
    pub beta2: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Lion {
    /// optax's defaults: betas 0.9 and 0.99, weight decay 1e-3.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.99.into(),
            weight_decay: 1e-3.into(),
        }
    }
}

impl Optimizer for Lion {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let (g, slot) = (step.grad, step.slot(FIRST));
        let direction = sign(self.beta1.mixed(slot.stored(), g));
        step.average(slot, &self.beta2, g);
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST]
    }
}

impl Listed for Lion {
    const ABOUT: About = About {
        name: "lion",
        rate: 1e-4,
        formula: "\
            w <- w - lr (sign(b1 m + (1 - b1) g) + wd w)\n\
            m <- b2 m + (1 - b2) g",
        paper: "Chen et al. 2023, arXiv 2302.06675, algorithm 2",
        peers: "optax's defaults. The paper gives no weight decay of its own; PyTorch has no Lion.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
        }
    }
}
