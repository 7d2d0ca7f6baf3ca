//! Adagrad (Duchi et al. 2011, JMLR 12, figure 1).
//!
//! ```text
//! v <- v + g²
//! w <- w - lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps)        or        g / sqrt(v + eps)
//! ```

use crate::descent::Descent;
use crate::options::{About, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{cast, greater, rsqrt, select, sqrt, square};

const SUM: &str = "adagrad_v";
const COUNT: &str = "adagrad_t";

/// The Adagrad optimizer, as `torch.optim.Adagrad` and, with [`Adagrad::optax`], `optax.adagrad`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Adagrad, Optimizer};
///
/// let optimizer = Adagrad { initial_accumulator: 0.1, ..Adagrad::new(1e-2) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adagrad {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// A small number that is added to the root of the sum.
    pub epsilon: Schedule,
    /// Whether epsilon is added under the root (optax), or to it (PyTorch).
    pub epsilon_inside: bool,
    /// What the sum of squares starts from.
    pub initial_accumulator: f64,
    /// How the rate falls with the number t of updates: by `1 / (1 + (t - 1) rate_decay)`.
    pub rate_decay: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Adagrad {
    /// PyTorch's defaults: the sum starts at 0, epsilon is 1e-10 outside of the root. Decay of weights
    /// is coupled.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            epsilon: 1e-10.into(),
            epsilon_inside: false,
            initial_accumulator: 0.0,
            rate_decay: 0.0.into(),
            weight_decay: WeightDecay::coupled(0.0),
        }
    }

    /// optax's defaults: the sum starts at 0.1, epsilon is 1e-7 under the root.
    ///
    /// ```
    /// use mesh_optimize::Adagrad;
    ///
    /// assert!(Adagrad::optax(1e-2).epsilon_inside);
    /// ```
    pub fn optax(learning_rate: impl Into<Schedule>) -> Self {
        let torch = Self::new(learning_rate);
        Self { initial_accumulator: 0.1, epsilon: 1e-7.into(), epsilon_inside: true, ..torch }
    }
}

impl Optimizer for Adagrad {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let (g, sum) = (step.grad, step.slot_from(SUM, self.initial_accumulator));
        let v = step.keep(sum, sum.stored() + square(g));
        let mut direction = if self.epsilon_inside {
            let (zero, one) = (step.scalar(0.0), step.scalar(1.0));
            let some = greater(v, zero);
            g * select(some, rsqrt(select(some, v + &self.epsilon, one)), zero)
        } else {
            g / (sqrt(v) + &self.epsilon)
        };
        if !self.rate_decay.is(0.0) {
            let before = step.count(COUNT) - 1.0;
            direction = direction * cast(1.0 / (before * &self.rate_decay + 1.0), step.dtype());
        }
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        [SUM].into_iter().chain((!self.rate_decay.is(0.0)).then_some(COUNT)).collect()
    }
}

impl Listed for Adagrad {
    const ABOUT: About = About {
        name: "adagrad",
        rate: 1e-2,
        formula: "\
            v <- v + g²\n\
            w <- w - lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps)        or        g / sqrt(v + eps)",
        paper: "Duchi et al. 2011, JMLR 12, figure 1",
        peers: "PyTorch's defaults. optax: initial_accumulator 0.1, epsilon 1e-7 with epsilon_inside \
                true.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "epsilon": epsilon in FROM_0,
            "epsilon_inside": epsilon_inside,
            "initial_accumulator": initial_accumulator in FROM_0,
            "rate_decay": rate_decay in FROM_0,
        }
    }
}
