//! AdaBelief, Adam by the surprise of gradients (Zhuang et al. 2020, arXiv 2010.07468, algorithm 2).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        s <- b2 s + (1 - b2) (g - m)² + eps_root
//! w <- w - lr m / (1 - b1^t) / (sqrt(s / (1 - b2^t)) + eps)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{sqrt, square};

const FIRST: &str = "adabelief_m";
const SURPRISE: &str = "adabelief_s";
const COUNT: &str = "adabelief_t";

/// The AdaBelief optimizer, as `optax.adabelief`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{AdaBelief, Optimizer};
///
/// let optimizer = AdaBelief { beta2: 0.99.into(), ..AdaBelief::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdaBelief {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the squared surprise.
    pub beta2: Schedule,
    /// A small number that is added to the root of the squared surprise.
    pub epsilon: Schedule,
    /// A small number that is added to the squared surprise at each update.
    pub epsilon_root: Schedule,
    /// Whether the first moment looks a step ahead.
    pub nesterov: bool,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl AdaBelief {
    /// optax's defaults: betas 0.9 and 0.999, both epsilons 1e-16.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-16.into(),
            epsilon_root: 1e-16.into(),
            nesterov: false,
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for AdaBelief {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let (g, first, surprise) = (step.grad, step.slot(FIRST), step.slot(SURPRISE));
        let m = step.first_moment(FIRST, &self.beta1, t, self.nesterov);
        let off = g - self.beta1.mixed(first.stored(), g);
        let s = self.beta2.mixed(surprise.stored(), square(off)) + &self.epsilon_root;
        step.keep(surprise, s);
        let s = step.unbiased(s, &self.beta2, t);
        step.end(m / (sqrt(s) + &self.epsilon), &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SURPRISE, COUNT]
    }
}

impl Listed for AdaBelief {
    const ABOUT: About = About {
        name: "adabelief",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        s <- b2 s + (1 - b2) (g - m)² + eps_root\n\
            w <- w - lr m / (1 - b1^t) / (sqrt(s / (1 - b2^t)) + eps)",
        paper: "Zhuang et al. 2020, arXiv 2010.07468, algorithm 2",
        peers: "optax's defaults; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "nesterov": nesterov,
        }
    }
}
