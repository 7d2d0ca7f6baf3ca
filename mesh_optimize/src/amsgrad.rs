//! AMSGrad, Adam with the largest second moment so far (Reddi et al. 2018, arXiv 1904.09237, algorithm
//! 2).
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²        s <- max(s, v / (1 - b2^t))
//! w <- w - lr m / (1 - b1^t) / (sqrt(s + eps_root) + eps)
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{maximum, sqrt, square};

const FIRST: &str = "amsgrad_m";
const SECOND: &str = "amsgrad_v";
const LARGEST: &str = "amsgrad_s";
const COUNT: &str = "amsgrad_t";

/// The AMSGrad optimizer, as `optax.amsgrad` and, with [`AmsGrad::torch`], `torch.optim.Adam` with
/// `amsgrad`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{AmsGrad, Optimizer};
///
/// let optimizer = AmsGrad { beta2: 0.99.into(), ..AmsGrad::new(1e-3) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AmsGrad {
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
    /// Whether the largest is that of the uncorrected moments, and is corrected itself (PyTorch).
    pub largest_uncorrected: bool,
    /// Whether the first moment is corrected for having started at zero.
    pub bias_correction_first: bool,
    /// Whether the second moment is corrected for having started at zero.
    pub bias_correction_second: bool,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl AmsGrad {
    /// optax's defaults: betas 0.9 and 0.999, epsilon 1e-8, the largest of corrected moments.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-8.into(),
            epsilon_root: 0.0.into(),
            largest_uncorrected: false,
            bias_correction_first: true,
            bias_correction_second: true,
            weight_decay: 0.0.into(),
        }
    }

    /// PyTorch's `Adam` with `amsgrad`: the largest of uncorrected moments, coupled decay of weights.
    ///
    /// ```
    /// use mesh_optimize::AmsGrad;
    ///
    /// assert!(AmsGrad::torch(1e-3).largest_uncorrected);
    /// ```
    pub fn torch(learning_rate: impl Into<Schedule>) -> Self {
        let weight_decay = WeightDecay::coupled(0.0);
        Self { largest_uncorrected: true, weight_decay, ..Self::new(learning_rate) }
    }
}

impl Optimizer for AmsGrad {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let (g, largest) = (step.grad, step.slot(LARGEST));
        let m = step.average(step.slot(FIRST), &self.beta1, g);
        let m = if self.bias_correction_first { step.unbiased(m, &self.beta1, t) } else { m };
        let v = step.average(step.slot(SECOND), &self.beta2, square(g));
        let corrected = |v: Tensor<'g>| {
            if self.bias_correction_second { step.unbiased(v, &self.beta2, t) } else { v }
        };
        let (v, most) = if self.largest_uncorrected {
            let most = maximum(largest.stored(), v);
            (corrected(most), most)
        } else {
            let most = maximum(largest.stored(), corrected(v));
            (most, most)
        };
        step.keep(largest, most);
        step.end(m / (sqrt(v + &self.epsilon_root) + &self.epsilon), &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SECOND, LARGEST, COUNT]
    }
}

impl Listed for AmsGrad {
    const ABOUT: About = About {
        name: "amsgrad",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²        s <- max(s, v / (1 - b2^t))\n\
            w <- w - lr m / (1 - b1^t) / (sqrt(s + eps_root) + eps)",
        paper: "Reddi et al. 2018, arXiv 1904.09237, algorithm 2",
        peers: "optax's defaults. PyTorch: largest_uncorrected true; weight decay, if any, coupled in \
                Adam.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "largest_uncorrected": largest_uncorrected,
            "bias_correction_first": bias_correction_first,
            "bias_correction_second": bias_correction_second,
        }
    }
}
