//! LAMB, Adam's steps in proportion to the norm of what they change (You et al. 2019, arXiv 1904.00962,
//! algorithm 2).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²
//! u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps) + wd w
//! w <- w - lr norm(w) / norm(u) u
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, TrustRatio, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::sqrt;

const FIRST: &str = "lamb_m";
const SECOND: &str = "lamb_v";
const COUNT: &str = "lamb_t";

/// The LAMB optimizer, as `optax.lamb`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Lamb, Optimizer};
///
/// let optimizer = Lamb { weight_decay: 0.01.into(), ..Lamb::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lamb {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moment.
    pub beta2: Schedule,
    /// A small number that is added to the root of the second moment.
    pub epsilon: Schedule,
    /// A small number that is added under the root.
    pub epsilon_root: Schedule,
    /// How the step follows from the variable's norm.
    pub ratio: TrustRatio,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Lamb {
    /// optax's defaults: betas 0.9 and 0.999, epsilon 1e-6, no weight decay.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-6.into(),
            epsilon_root: 0.0.into(),
            ratio: TrustRatio::new(1.0),
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for Lamb {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let m = step.first_moment(FIRST, &self.beta1, t, false);
        let v = step.second_moment(SECOND, &self.beta2, t);
        let update = step.decayed(m / (sqrt(v + &self.epsilon_root) + &self.epsilon));
        let rate = self.learning_rate.at(step.graph(), step.dtype());
        let delta = self.ratio.scaled(&step, update) * rate;
        step.subtract(delta)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SECOND, COUNT]
    }
}

impl Listed for Lamb {
    const ABOUT: About = About {
        name: "lamb",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²\n\
            u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps) + wd w\n\
            w <- w - lr norm(w) / norm(u) u",
        paper: "You et al. 2019, arXiv 1904.00962, algorithm 2",
        peers: "optax's defaults; PyTorch has no LAMB.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "ratio_coefficient": ratio.coefficient in FROM_0,
            "ratio_epsilon": ratio.epsilon in FROM_0,
            "ratio_exclude": ratio.exclude,
            "stacked_dims": ratio.stacked_dims,
        }
    }
}
