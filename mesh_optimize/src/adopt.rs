//! ADOPT, which divides by the second moment of the step before (Taniguchi et al. 2024, arXiv
//! 2411.02853, algorithm 2).
//!
//! ```text
//! u = g / max(sqrt(v), eps), clipped to ±(t - 1)^(1/4)
//! m <- b1 m + (1 - b1) u        v <- b2 v + (1 - b2) g²        (the first update: v <- g² and nothing else)
//! w <- w - lr (m + wd w)        Nesterov: b1 m + (1 - b1) u in place of m
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{cast, greater, maximum, minimum, powf, select, sqrt, square};

const FIRST: &str = "adopt_m";
const SECOND: &str = "adopt_v";
const COUNT: &str = "adopt_t";

/// The ADOPT optimizer, as `optax.contrib.adopt`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Adopt, Optimizer};
///
/// let optimizer = Adopt { clipping: false, ..Adopt::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adopt {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moment.
    pub beta2: Schedule,
    /// The least that a gradient is divided by.
    pub epsilon: Schedule,
    /// Whether normalized gradients are clipped.
    pub clipping: bool,
    /// Whether the first moment looks a step ahead.
    pub nesterov: bool,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Adopt {
    /// optax's defaults: betas 0.9 and 0.9999, epsilon 1e-6, with clipping.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.9999.into(),
            epsilon: 1e-6.into(),
            clipping: true,
            nesterov: false,
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for Adopt {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let before = step.count(COUNT) - 1.0;
        let (g, first, second) = (step.grad, step.slot(FIRST), step.slot(SECOND));
        let started = greater(before, step.graph().scalar(0.0, before.dtype()));
        let (m, v) = (first.stored(), second.stored());
        let mut normal = g / maximum(sqrt(v), &self.epsilon);
        if self.clipping {
            let most = cast(powf(before, 0.25), step.dtype());
            normal = minimum(maximum(normal, most * -1.0), most);
        }
        let average = |m: Tensor<'g>| select(started, self.beta1.mixed(m, normal), m);
        let squares = square(g);
        let later = self.beta2.mixed(v, squares);
        step.keep(second, select(started, later, squares));
        let m = step.keep(first, average(m));
        let direction = if self.nesterov { average(m) } else { m };
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SECOND, COUNT]
    }
}

impl Listed for Adopt {
    const ABOUT: About = About {
        name: "adopt",
        rate: 1e-3,
        formula: "\
            u = g / max(sqrt(v), eps), clipped to ±(t - 1)^(1/4)\n\
            m <- b1 m + (1 - b1) u        v <- b2 v + (1 - b2) g²        (the first update: v <- g² and nothing else)\n\
            w <- w - lr (m + wd w)        Nesterov: b1 m + (1 - b1) u in place of m",
        paper: "Taniguchi et al. 2024, arXiv 2411.02853, algorithm 2",
        peers: "optax's defaults; PyTorch has none of it.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "clipping": clipping,
            "nesterov": nesterov,
        }
    }
}
