//! Adan, with an average of the gradients' differences (Xie et al. 2022, arXiv 2208.06677, algorithm
//! 1).
//!
//! ```text
//! d = g - the gradient before, or 0 at first
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) d        n <- b3 n + (1 - b3) (g + (1 - b2) d)²
//! u = m / (1 - b1^t) + (1 - b2) v / (1 - b2^t)
//! w <- w - lr (u / (sqrt(n / (1 - b3^t) + eps_root) + eps) + wd w)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{greater, select, sqrt, square};

const BEFORE: &str = "adan_g";
const FIRST: &str = "adan_m";
const DIFFERENCES: &str = "adan_v";
const SECOND: &str = "adan_n";
const COUNT: &str = "adan_t";

/// The Adan optimizer, as `optax.adan`: its betas are the decays of averages, 1 less the paper's, as in
/// the authors' code.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Adan, Optimizer};
///
/// let optimizer = Adan { weight_decay: 0.02.into(), ..Adan::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adan {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the average of gradients.
    pub beta1: Schedule,
    /// The decay of the average of differences.
    pub beta2: Schedule,
    /// The decay of the second moment.
    pub beta3: Schedule,
    /// A small number that is added to the root of the second moment.
    pub epsilon: Schedule,
    /// A small number that is added under the root.
    pub epsilon_root: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Adan {
    /// optax's defaults: betas 0.98, 0.92 and 0.99, both epsilons 1e-8, no weight decay.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.98.into(),
            beta2: 0.92.into(),
            beta3: 0.99.into(),
            epsilon: 1e-8.into(),
            epsilon_root: 1e-8.into(),
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for Adan {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let (g, before) = (step.grad, step.slot(BEFORE));
        let started = greater(t, step.graph().scalar(1.0, t.dtype()));
        let difference = select(started, g - before.stored(), step.scalar(0.0));
        step.keep(before, g);
        let m = step.first_moment(FIRST, &self.beta1, t, false);
        let v = step.average(step.slot(DIFFERENCES), &self.beta2, difference);
        let v = step.unbiased(v, &self.beta2, t);
        let ahead = g + self.beta2.rest_times(difference);
        let n = step.average(step.slot(SECOND), &self.beta3, square(ahead));
        let n = step.unbiased(n, &self.beta3, t);
        let direction =
            (m + self.beta2.rest_times(v)) / (sqrt(n + &self.epsilon_root) + &self.epsilon);
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![BEFORE, FIRST, DIFFERENCES, SECOND, COUNT]
    }
}

impl Listed for Adan {
    const ABOUT: About = About {
        name: "adan",
        rate: 1e-3,
        formula: "\
            d = g - the gradient before, or 0 at first\n\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) d        n <- b3 n + (1 - b3) (g + (1 - b2) d)²\n\
            u = m / (1 - b1^t) + (1 - b2) v / (1 - b2^t)\n\
            w <- w - lr (u / (sqrt(n / (1 - b3^t) + eps_root) + eps) + wd w)",
        paper: "Xie et al. 2022, arXiv 2208.06677, algorithm 1",
        peers: "optax's defaults. The paper divides by 1 + lr wd for decay; PyTorch has no Adan.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "beta3": beta3 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
        }
    }
}
