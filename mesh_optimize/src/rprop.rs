//! Rprop, steps that follow from signs alone (Riedmiller & Braun 1993, ICNN, equations 4 to 6).
//!
//! ```text
//! s <- min(max(s eta, least), most), eta = eta_plus where g and the gradient before agree, eta_minus where not
//! w <- w - s sign(g), but where they do not agree: w stays, and g counts as 0 next time
//! ```

use crate::descent::Descent;
use crate::options::{
    About, BELOW_1, FROM_0, LEAST_1, Listed, Setting, decayed_settings, rate_field,
};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{greater, less, maximum, minimum, select, sign};

const BEFORE: &str = "rprop_g";
const SIZES: &str = "rprop_s";

/// The Rprop optimizer, as `torch.optim.Rprop`. For whole batches: it compares the
/// signs of gradients. The learning rate at the first update is what step sizes start from; later rates
/// have no effect.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Optimizer, Rprop};
///
/// let optimizer = Rprop { most: 1.0.into(), ..Rprop::new(1e-2) };
/// g.function("train", [x], [loss], optimizer.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rprop {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The factor of a step size after a sign has changed, from 0 to below 1.
    pub eta_minus: Schedule,
    /// The factor of a step size after a sign has stayed.
    pub eta_plus: Schedule,
    /// The least step size.
    pub least: Schedule,
    /// The largest step size.
    pub most: Schedule,
    /// The decay of weights.
    pub weight_decay: WeightDecay,
}

impl Rprop {
    /// PyTorch's and optax's defaults: factors 0.5 and 1.2, step sizes from 1e-6 to 50.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            eta_minus: 0.5.into(),
            eta_plus: 1.2.into(),
            least: 1e-6.into(),
            most: 50.0.into(),
            weight_decay: 0.0.into(),
        }
    }
}

impl Optimizer for Rprop {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let Some(mut step) = Descent::new(self, &self.weight_decay, grad, variable) else {
            return Vec::new();
        };
        let (g, before, sizes) = (step.grad, step.slot(BEFORE), step.slot(SIZES));
        let zero = step.scalar(0.0);
        let rate = self.learning_rate.at(step.graph(), step.dtype());
        let size = select(greater(sizes.stored(), zero), sizes.stored(), rate);
        let agree = g * before.stored();
        let [up, down] = [&self.eta_plus, &self.eta_minus].map(|eta| size * eta);
        let size = select(greater(agree, zero), up, select(less(agree, zero), down, size));
        let size = minimum(maximum(size, &self.least), &self.most);
        step.keep(sizes, size);
        let g = step.keep(before, select(less(agree, zero), zero, g));
        let delta = size * sign(g);
        let decay = step.decay();
        step.subtract(decay.map_or(delta, |decay| delta + decay * rate))
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![BEFORE, SIZES]
    }
}

impl Listed for Rprop {
    const ABOUT: About = About {
        name: "rprop",
        rate: 1e-2,
        formula: "\
            s <- min(max(s eta, least), most), eta = eta_plus where g and the gradient before agree, eta_minus where not\n\
            w <- w - s sign(g), but where they do not agree: w stays, and g counts as 0 next time",
        paper: "Riedmiller & Braun 1993, ICNN, equations 4 to 6",
        peers: "PyTorch's and optax's defaults. optax 0.2.8 hands out each step one call late.",
    };

    rate_field! {}

    fn settings() -> Vec<Setting<Self>> {
        decayed_settings! {
            "eta_minus": eta_minus in BELOW_1,
            "eta_plus": eta_plus in LEAST_1,
            "least": least in FROM_0,
            "most": most in FROM_0,
        }
    }
}
