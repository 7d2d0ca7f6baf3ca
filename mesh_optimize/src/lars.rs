//! LARS, momentum with steps in proportion to the norm of what they change (You et al. 2017, arXiv
//! 1708.03888, algorithm 1).
//!
//! ```text
//! u = g + wd w
//! v <- mu v + lr c norm(w) / (norm(u) + eps) u
//! w <- w - v                    Nesterov: w <- w - (mu v + lr c norm(w) / (norm(u) + eps) u)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, TrustRatio, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};

const VELOCITY: &str = "lars_v";

/// The LARS optimizer, as `optax.lars`. Its momentum holds steps, with their rates.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Lars, Optimizer};
///
/// let optimizer = Lars { nesterov: true, ..Lars::new(0.1) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lars {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The fraction of the last step that is kept.
    pub momentum: Schedule,
    /// Whether the step looks a step ahead.
    pub nesterov: bool,
    /// How the step follows from the variable's norm.
    pub ratio: TrustRatio,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Lars {
    /// optax's defaults: momentum 0.9, trust coefficient 1e-3, no weight decay. Decay is coupled, as in
    /// the paper.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            momentum: 0.9.into(),
            nesterov: false,
            ratio: TrustRatio::new(1e-3),
            weight_decay: WeightDecay::coupled(0.0),
        }
    }
}

impl Optimizer for Lars {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let rate = self.learning_rate.at(step.graph(), step.dtype());
        let update = step.decayed(step.grad);
        let scaled = self.ratio.scaled(&step, update) * rate;
        let velocity = step.trace(step.slot(VELOCITY), &self.momentum, scaled);
        step.subtract(if self.nesterov { scaled + velocity * &self.momentum } else { velocity })
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![VELOCITY]
    }
}

impl Listed for Lars {
    const ABOUT: About = About {
        name: "lars",
        rate: 1e-1,
        formula: "\
            u = g + wd w\n\
            v <- mu v + lr c norm(w) / (norm(u) + eps) u\n\
            w <- w - v                    Nesterov: w <- w - (mu v + lr c norm(w) / (norm(u) + eps) u)",
        paper: "You et al. 2017, arXiv 1708.03888, algorithm 1",
        peers: "optax's defaults; PyTorch has no LARS.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "momentum": momentum in BELOW_1,
            "nesterov": nesterov,
            "ratio_coefficient": ratio.coefficient in FROM_0,
            "ratio_epsilon": ratio.epsilon in FROM_0,
            "ratio_exclude": ratio.exclude,
            "stacked_dims": ratio.stacked_dims,
        }
    }
}
