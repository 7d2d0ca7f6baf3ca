//! Adamax, Adam by the largest gradient (Kingma & Ba 2015, arXiv 1412.6980, algorithm 2).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- max(b2 v, |g| + eps)
//! w <- w - lr m / (1 - b1^t) / v
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{abs, maximum};

const FIRST: &str = "adamax_m";
const LARGEST: &str = "adamax_v";
const COUNT: &str = "adamax_t";

/// The Adamax optimizer, as `torch.optim.Adamax`, `optax.adamax` and, with decoupled decay,
/// `optax.adamaxw`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Adamax, Optimizer};
///
/// let optimizer = Adamax { beta1: 0.95.into(), ..Adamax::new(2e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adamax {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the largest gradient.
    pub beta2: Schedule,
    /// A small number that is added to the size of the gradient.
    pub epsilon: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Adamax {
    /// PyTorch's and optax's defaults: betas 0.9 and 0.999, epsilon 1e-8. Decay of weights is coupled,
    /// as PyTorch has it.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-8.into(),
            weight_decay: WeightDecay::coupled(0.0),
        }
    }
}

impl Optimizer for Adamax {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let m = step.first_moment(FIRST, &self.beta1, t, false);
        let largest = step.slot(LARGEST);
        let v = maximum(largest.stored() * &self.beta2, abs(step.grad) + &self.epsilon);
        step.keep(largest, v);
        step.end(m / v, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, LARGEST, COUNT]
    }
}

impl Listed for Adamax {
    const ABOUT: About = About {
        name: "adamax",
        rate: 2e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- max(b2 v, |g| + eps)\n\
            w <- w - lr m / (1 - b1^t) / v",
        paper: "Kingma & Ba 2015, arXiv 1412.6980, algorithm 2",
        peers: "PyTorch's and optax's defaults; optax has decay in adamaxw, decoupled, 1e-4.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
        }
    }
}
