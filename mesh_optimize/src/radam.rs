//! RAdam, Adam whose first steps are rectified (Liu et al. 2019, arXiv 1908.03265, algorithm 2).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²
//! ri = 2 / (1 - b2) - 1        r_t = ri - 2 t b2^t / (1 - b2^t)
//! w <- w - lr m / (1 - b1^t)                                               while r_t is below the threshold, then
//! w <- w - lr rect m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps)
//! rect = sqrt((r_t - 4) (r_t - 2) ri / ((ri - 4) (ri - 2) r_t))
//! ```

use crate::descent::Descent;
use crate::options::{
    About, BELOW_1, FROM_0, FROM_4, Listed, Setting, decayed_settings, rate_field,
};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{cast, greater_equal, pow, select, sqrt, square};

const FIRST: &str = "radam_m";
const SECOND: &str = "radam_v";
const COUNT: &str = "radam_t";

/// The RAdam optimizer, as `torch.optim.RAdam` and, with [`RAdam::optax`], `optax.radam`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, RAdam};
///
/// let optimizer = RAdam { beta2: 0.99.into(), ..RAdam::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RAdam {
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
    /// Whether epsilon, too, is divided by the root of `1 - b2^t` (PyTorch).
    pub epsilon_corrected: bool,
    /// The r_t from which on the second moment is used.
    pub threshold: Schedule,
    /// Whether the first moment looks a step ahead.
    pub nesterov: bool,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl RAdam {
    /// PyTorch's defaults: betas 0.9 and 0.999, epsilon 1e-8 before the correction. Decay of weights is
    /// coupled.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-8.into(),
            epsilon_root: 0.0.into(),
            epsilon_corrected: true,
            threshold: 5.0.into(),
            nesterov: false,
            weight_decay: WeightDecay::coupled(0.0),
        }
    }

    /// optax's defaults: epsilon 1e-8 after the correction.
    ///
    /// ```
    /// use mesh_optimize::RAdam;
    ///
    /// assert!(!RAdam::optax(1e-3).epsilon_corrected);
    /// ```
    pub fn optax(learning_rate: impl Into<Schedule>) -> Self {
        Self { epsilon_corrected: false, ..Self::new(learning_rate) }
    }
}

impl Optimizer for RAdam {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let m = step.first_moment(FIRST, &self.beta1, t, self.nesterov);
        let v = step.average(step.slot(SECOND), &self.beta2, square(step.grad));
        let beta2 = self.beta2.at(step.graph(), t.dtype());
        let most = 2.0 / (1.0 - beta2) - 1.0;
        let power = pow(beta2, t);
        let found = t * power * -2.0 / (1.0 - power) + most;
        let used = greater_equal(found, &self.threshold);
        // Where it is not used, numbers whose roots there are.
        let [found, most] = [found, most].map(|x| select(used, x, 5.0));
        let factor = most / ((most - 4.0) * (most - 2.0));
        let rectified = cast(sqrt((found - 4.0) * (found - 2.0) / found * factor), step.dtype());
        let epsilon = if self.epsilon_corrected {
            cast(self.epsilon.at(step.graph(), t.dtype()) / sqrt(1.0 - power), step.dtype())
        } else {
            self.epsilon.at(step.graph(), step.dtype())
        };
        let root = sqrt(step.unbiased(v, &self.beta2, t) + &self.epsilon_root);
        let direction = select(used, m * rectified / (root + epsilon), m);
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SECOND, COUNT]
    }
}

impl Listed for RAdam {
    const ABOUT: About = About {
        name: "radam",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²\n\
            ri = 2 / (1 - b2) - 1        r_t = ri - 2 t b2^t / (1 - b2^t)\n\
            w <- w - lr m / (1 - b1^t)                                               while r_t is below the threshold, then\n\
            w <- w - lr rect m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps)\n\
            rect = sqrt((r_t - 4) (r_t - 2) ri / ((ri - 4) (ri - 2) r_t))",
        paper: "Liu et al. 2019, arXiv 1908.03265, algorithm 2",
        peers: "PyTorch's defaults. optax: epsilon_corrected false. Both have the threshold 5.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "epsilon_corrected": epsilon_corrected,
            "threshold": threshold in FROM_4,
            "nesterov": nesterov,
        }
    }
}
