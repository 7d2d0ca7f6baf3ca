//! RMSProp (Tieleman & Hinton 2012, lecture 6.5; centered: Graves 2013, arXiv 1308.0850, equations 38
//! to 45).
//!
//! ```text
//! v <- a v + (1 - a) g²        m <- a m + (1 - a) g        (m only if centered, otherwise 0)
//! u = g / (sqrt(v - m²) + eps)        or        g / sqrt(v - m² + eps)
//! w <- w - lr u        with momentum: b <- mu b + u, w <- w - lr b
//! ```

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, decayed_settings, rate_field};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{rsqrt, sqrt, square};

const SECOND: &str = "rmsprop_v";
const FIRST: &str = "rmsprop_m";
const COUNT: &str = "rmsprop_t";
const VELOCITY: &str = "rmsprop_b";

/// The RMSProp optimizer, as `torch.optim.RMSprop` and, with [`RmsProp::optax`], `optax.rmsprop`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, RmsProp};
///
/// let optimizer = RmsProp { centered: true, ..RmsProp::new(1e-2) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RmsProp {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the moments.
    pub decay: Schedule,
    /// A small number that is added to the root of the second moment.
    pub epsilon: Schedule,
    /// Whether epsilon is added under the root (TensorFlow, optax), or to it (PyTorch).
    pub epsilon_inside: bool,
    /// Whether the square of the average is subtracted from the average of squares.
    pub centered: bool,
    /// Whether the moments are corrected for having started at zero.
    pub bias_correction: bool,
    /// What the average of squares starts from.
    pub initial_scale: f64,
    /// The fraction of the last step that is kept; with 0 no momentum is kept.
    pub momentum: Schedule,
    /// Whether momentum looks a step ahead.
    pub nesterov: bool,
    /// Whether momentum holds steps with their rates (TensorFlow, optax), or directions (PyTorch). With
    /// a constant rate it is the same.
    pub rate_in_momentum: bool,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl RmsProp {
    /// PyTorch's defaults: decay 0.99, epsilon 1e-8 outside of the root, neither centered nor with
    /// momentum. Decay of weights is coupled.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            decay: 0.99.into(),
            epsilon: 1e-8.into(),
            epsilon_inside: false,
            centered: false,
            bias_correction: false,
            initial_scale: 0.0,
            momentum: 0.0.into(),
            nesterov: false,
            rate_in_momentum: false,
            weight_decay: WeightDecay::coupled(0.0),
        }
    }

    /// optax's defaults: decay 0.9, epsilon 1e-8 under the root, momentum, if there is any, of steps with their
    /// rates.
    ///
    /// ```
    /// use mesh_optimize::RmsProp;
    ///
    /// assert!(RmsProp { momentum: 0.9.into(), ..RmsProp::optax(1e-3) }.rate_in_momentum);
    /// ```
    pub fn optax(learning_rate: impl Into<Schedule>) -> Self {
        let torch = Self::new(learning_rate);
        Self { decay: 0.9.into(), epsilon_inside: true, rate_in_momentum: true, ..torch }
    }

    fn has_momentum(&self) -> bool {
        !self.momentum.is(0.0)
    }

    /// The average of squares, less the square of the average `m` if there is one, both without bias if that is
    /// asked for.
    fn variance<'g>(
        &self,
        step: &mut Descent<'_, 'g>,
        v: Tensor<'g>,
        m: Option<Tensor<'g>>,
    ) -> Tensor<'g> {
        let t = self.bias_correction.then(|| step.count(COUNT));
        let corrected = |x: Tensor<'g>| t.map_or(x, |t| step.unbiased(x, &self.decay, t));
        let v = corrected(v);
        m.map_or(v, |m| v - square(corrected(m)))
    }
}

impl Optimizer for RmsProp {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let g = step.grad;
        let v = step.average(step.slot_from(SECOND, self.initial_scale), &self.decay, square(g));
        let m = self.centered.then(|| step.average(step.slot(FIRST), &self.decay, g));
        let variance = self.variance(&mut step, v, m);
        let scaled = if self.epsilon_inside {
            g * rsqrt(variance + &self.epsilon)
        } else {
            g / (sqrt(variance) + &self.epsilon)
        };
        if !self.has_momentum() {
            return step.end(scaled, &self.learning_rate);
        }
        let rate = self.learning_rate.at(step.graph(), step.dtype());
        let scaled = if self.rate_in_momentum { scaled * rate } else { scaled };
        let velocity = step.trace(step.slot(VELOCITY), &self.momentum, scaled);
        let ahead = if self.nesterov { scaled + velocity * &self.momentum } else { velocity };
        if self.rate_in_momentum {
            let decay = step.decay();
            step.subtract(decay.map_or(ahead, |decay| ahead + decay * rate))
        } else {
            step.end(ahead, &self.learning_rate)
        }
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let slots = [
            (SECOND, true),
            (FIRST, self.centered),
            (COUNT, self.bias_correction),
            (VELOCITY, self.has_momentum()),
        ];
        slots.into_iter().filter(|(_, made)| *made).map(|(name, _)| name).collect()
    }
}

impl Listed for RmsProp {
    const ABOUT: About = About {
        name: "rmsprop",
        rate: 1e-2,
        formula: "\
            v <- a v + (1 - a) g²        m <- a m + (1 - a) g        (m only if centered, otherwise 0)\n\
            u = g / (sqrt(v - m²) + eps)        or        g / sqrt(v - m² + eps)\n\
            w <- w - lr u        with momentum: b <- mu b + u, w <- w - lr b",
        paper: "Tieleman & Hinton 2012, lecture 6.5; centered: Graves 2013, arXiv 1308.0850, equations \
                38 to 45",
        peers: "PyTorch's defaults. optax: decay 0.9, epsilon_inside and rate_in_momentum true.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "decay": decay in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_inside": epsilon_inside,
            "centered": centered,
            "bias_correction": bias_correction,
            "initial_scale": initial_scale in FROM_0,
            "momentum": momentum in BELOW_1,
            "nesterov": nesterov,
            "rate_in_momentum": rate_in_momentum,
        }
    }
}
