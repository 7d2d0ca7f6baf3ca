//! NovoGrad, with one second moment for each variable (Ginsburg et al. 2019, arXiv 1905.11286,
//! algorithm 1).
//!
//! ```text
//! v <- b2 v + (1 - b2) norm(g)², at first norm(g)²
//! m <- b1 m + g / (sqrt(v + eps_root) + eps) + wd w
//! w <- w - lr m
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_core::names::{DType, Dimension};
use mesh_ops::elementwise::{greater, select, sqrt, square};
use mesh_ops::reduce::sum;

const NORM: &str = "novograd_v";
const FIRST: &str = "novograd_m";
const COUNT: &str = "novograd_t";

/// The NovoGrad optimizer, as `optax.novograd`. Decay that is not coupled goes into its momentum.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{NovoGrad, Optimizer};
///
/// let optimizer = NovoGrad { beta1: 0.95.into(), ..NovoGrad::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct NovoGrad {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the momentum.
    pub beta1: Schedule,
    /// The decay of the squared norm.
    pub beta2: Schedule,
    /// A small number that is added to the root.
    pub epsilon: Schedule,
    /// A small number that is added under the root.
    pub epsilon_root: Schedule,
    /// The names of dims along which variables of equal shape are stacked. Each of them has its own
    /// norm.
    pub stacked_dims: Vec<String>,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl NovoGrad {
    /// optax's defaults: betas 0.9 and 0.25, epsilon 1e-6, no weight decay.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.25.into(),
            epsilon: 1e-6.into(),
            epsilon_root: 0.0.into(),
            stacked_dims: Vec::new(),
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for NovoGrad {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let (g, shape) = (step.grad, variable.shape());
        let stacked = |dim: &Dimension| self.stacked_dims.iter().any(|s| s == dim.name.as_str());
        let own: Vec<_> = shape.iter().filter(|dim| !stacked(dim)).collect();
        let squares = sum(square(g), own);
        let norm = step.slot_of(NORM, &squares.shape(), 0.0);
        let started = greater(step.count(COUNT), step.graph().scalar(1.0, DType::F64));
        let later = self.beta2.mixed(norm.stored(), squares);
        let v = step.keep(norm, select(started, later, squares));
        let normal = step.decayed(g / (sqrt(v + &self.epsilon_root) + &self.epsilon));
        let m = step.trace(step.slot(FIRST), &self.beta1, normal);
        let delta = m * self.learning_rate.at(step.graph(), step.dtype());
        step.subtract(delta)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![NORM, FIRST, COUNT]
    }
}

impl Listed for NovoGrad {
    const ABOUT: About = About {
        name: "novograd",
        rate: 1e-3,
        formula: "\
            v <- b2 v + (1 - b2) norm(g)², at first norm(g)²\n\
            m <- b1 m + g / (sqrt(v + eps_root) + eps) + wd w\n\
            w <- w - lr m",
        paper: "Ginsburg et al. 2019, arXiv 1905.11286, algorithm 1",
        peers: "optax's defaults. The paper's beta2 is 0.98 for language; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "stacked_dims": stacked_dims,
        }
    }
}
