//! NAdam, Adam with Nesterov's momentum (Dozat 2016, ICLR workshop, algorithm 2).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²
//! mu_t = b1 (1 - 0.96^(t momentum_decay) / 2), or b1 if there is no momentum_decay
//! u = mu_(t+1) m / (1 - mu_1 ... mu_(t+1)) + (1 - mu_t) g / (1 - mu_1 ... mu_t)
//! w <- w - lr u / (sqrt(v / (1 - b2^t) + eps_root) + eps)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{cast, pow, sqrt};

const FIRST: &str = "nadam_m";
const SECOND: &str = "nadam_v";
const COUNT: &str = "nadam_t";
const PRODUCT: &str = "nadam_mu";

/// The NAdam optimizer, as `torch.optim.NAdam` and, without momentum decay, `optax.nadam` and
/// `optax.nadamw`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{NAdam, Optimizer};
///
/// let optimizer = NAdam { momentum_decay: None, ..NAdam::new(2e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct NAdam {
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
    /// How beta1 grows with the steps (PyTorch); `None` leaves it as it is (optax).
    pub momentum_decay: Option<Schedule>,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl NAdam {
    /// PyTorch's defaults: betas 0.9 and 0.999, epsilon 1e-8, momentum decay 4e-3. Decay of weights is
    /// coupled.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-8.into(),
            epsilon_root: 0.0.into(),
            momentum_decay: Some(4e-3.into()),
            weight_decay: WeightDecay::coupled(0.0),
        }
    }

    /// What the average and the gradient are multiplied by; a slot keeps the product of the mu_t.
    fn weights<'g>(
        &self,
        step: &mut Descent<'_, 'g>,
        t: Tensor<'g>,
        decay: &Schedule,
    ) -> [Tensor<'g>; 2] {
        let base = step.graph().scalar(0.96, t.dtype());
        let mu = |t: Tensor<'g>| (1.0 - pow(base, t * decay) * 0.5) * &self.beta1;
        let (now, next) = (mu(t), mu(t + 1.0));
        let product = step.scalar_slot(PRODUCT, 1.0);
        let product = step.keep(product, product.stored() * now);
        [next / (1.0 - product * next), (1.0 - now) / (1.0 - product)]
    }
}

impl Optimizer for NAdam {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let g = step.grad;
        let v = step.second_moment(SECOND, &self.beta2, t);
        let m = match &self.momentum_decay {
            None => step.first_moment(FIRST, &self.beta1, t, true),
            Some(decay) => {
                let m = step.average(step.slot(FIRST), &self.beta1, g);
                let [of_m, of_g] = self.weights(&mut step, t, decay);
                m * cast(of_m, step.dtype()) + g * cast(of_g, step.dtype())
            }
        };
        step.end(m / (sqrt(v + &self.epsilon_root) + &self.epsilon), &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let product = self.momentum_decay.as_ref().map(|_| PRODUCT);
        [FIRST, SECOND, COUNT].into_iter().chain(product).collect()
    }
}

impl Listed for NAdam {
    const ABOUT: About = About {
        name: "nadam",
        rate: 2e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²\n\
            mu_t = b1 (1 - 0.96^(t momentum_decay) / 2), or b1 if there is no momentum_decay\n\
            u = mu_(t+1) m / (1 - mu_1 ... mu_(t+1)) + (1 - mu_t) g / (1 - mu_1 ... mu_t)\n\
            w <- w - lr u / (sqrt(v / (1 - b2^t) + eps_root) + eps)",
        paper: "Dozat 2016, ICLR workshop, algorithm 2",
        peers: "PyTorch's defaults. optax: momentum_decay null; decay in nadamw, decoupled, 1e-4.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "momentum_decay": momentum_decay in FROM_0,
        }
    }
}
