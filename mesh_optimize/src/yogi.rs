//! Yogi, Adam whose second moment changes by bounded steps (Zaheer et al. 2018, NeurIPS 31, algorithm
//! 2).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- v - (1 - b2) sign(v - g²) g²
//! w <- w - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{sign, sqrt, square};

const FIRST: &str = "yogi_m";
const SECOND: &str = "yogi_v";
const COUNT: &str = "yogi_t";

/// The Yogi optimizer, as `optax.yogi`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, Yogi};
///
/// let optimizer = Yogi { beta2: 0.99.into(), ..Yogi::new(1e-2) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Yogi {
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
    /// What both moments start from.
    pub initial_accumulator: f64,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Yogi {
    /// optax's defaults: betas 0.9 and 0.999, epsilon 1e-3, both moments start at 1e-6.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-3.into(),
            epsilon_root: 0.0.into(),
            initial_accumulator: 1e-6,
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for Yogi {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let (g, second) = (step.grad, step.slot_from(SECOND, self.initial_accumulator));
        let m = step.average(step.slot_from(FIRST, self.initial_accumulator), &self.beta1, g);
        let (v, squares) = (second.stored(), square(g));
        let v = step.keep(second, v - self.beta2.rest_times(sign(v - squares) * squares));
        let (m, v) = (step.unbiased(m, &self.beta1, t), step.unbiased(v, &self.beta2, t));
        step.end(m / (sqrt(v + &self.epsilon_root) + &self.epsilon), &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SECOND, COUNT]
    }
}

impl Listed for Yogi {
    const ABOUT: About = About {
        name: "yogi",
        rate: 1e-2,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- v - (1 - b2) sign(v - g²) g²\n\
            w <- w - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps)",
        paper: "Zaheer et al. 2018, NeurIPS 31, algorithm 2",
        peers: "optax's defaults; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "initial_accumulator": initial_accumulator in FROM_0,
        }
    }
}
