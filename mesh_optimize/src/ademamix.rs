//! AdEMAMix, Adam with a second, slower average (Pagliardini et al. 2024, arXiv 2409.03137, algorithm
//! 1).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        n <- b3 n + (1 - b3) g        v <- b2 v + (1 - b2) g²
//! u = (m / (1 - b1^t) + alpha n) / (sqrt(v / (1 - b2^t) + eps_root) + eps)
//! w <- w - lr (u + wd w)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::sqrt;

const FIRST: &str = "ademamix_m";
const SLOW: &str = "ademamix_n";
const SECOND: &str = "ademamix_v";
const COUNT: &str = "ademamix_t";

/// The AdEMAMix optimizer, as `optax.contrib.ademamix`. The paper lets `alpha` and `beta3` grow: give
/// functions of the step.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{AdEmaMix, Optimizer};
///
/// let optimizer = AdEmaMix { alpha: 8.0.into(), ..AdEmaMix::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdEmaMix {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moment.
    pub beta2: Schedule,
    /// The decay of the slow average, from 0 to below 1, a number or a function of the step.
    pub beta3: Schedule,
    /// The weight of the slow average, a number or a function of the step.
    pub alpha: Schedule,
    /// A small number that is added to the root of the second moment.
    pub epsilon: Schedule,
    /// A small number that is added under the root.
    pub epsilon_root: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl AdEmaMix {
    /// optax's defaults: betas 0.9, 0.999 and 0.9999, alpha 5, epsilon 1e-8, no weight decay.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            beta3: 0.9999.into(),
            alpha: 5.0.into(),
            epsilon: 1e-8.into(),
            epsilon_root: 0.0.into(),
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for AdEmaMix {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let (g, slow) = (step.grad, step.slot(SLOW));
        let m = step.first_moment(FIRST, &self.beta1, t, false);
        let n = step.average(slow, &self.beta3, g);
        let v = step.second_moment(SECOND, &self.beta2, t);
        let direction = (m + n * &self.alpha) / (sqrt(v + &self.epsilon_root) + &self.epsilon);
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SLOW, SECOND, COUNT]
    }
}

impl Listed for AdEmaMix {
    const ABOUT: About = About {
        name: "ademamix",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        n <- b3 n + (1 - b3) g        v <- b2 v + (1 - b2) g²\n\
            u = (m / (1 - b1^t) + alpha n) / (sqrt(v / (1 - b2^t) + eps_root) + eps)\n\
            w <- w - lr (u + wd w)",
        paper: "Pagliardini et al. 2024, arXiv 2409.03137, algorithm 1",
        peers: "optax's defaults; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "beta3": beta3 in BELOW_1,
            "alpha": alpha in FROM_0,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
        }
    }
}
