//! Adam, AdamW, and the form of Adam with weight decay that BERT and Mesh TensorFlow have.
//!
//! Kingma & Ba 2015 (arXiv 1412.6980), algorithm 1, and Loshchilov & Hutter 2019 (arXiv 1711.05101),
//! algorithm 2, whose decay of weights is decoupled from the gradient; t counts the updates of the
//! variable from 1:
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²
//! w <- w - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)                   (Adam)
//! w <- w - lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + wd w)          (AdamW)
//! w <- w - lr (m / (sqrt(v) + eps) + wd w)                                    (AdamWeightDecay)
//! ```
//!
//! Options beyond the papers: a small number under the root, the first moment of a step ahead (both optax's), and
//! decay that is added to the gradient (`weight_decay` of PyTorch's Adam).

use crate::descent::Descent;
use crate::options::{About, BELOW_1, FROM_0, Listed, Setting, settings};
use crate::{Optimizer, Schedule, WeightDecay};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::{sqrt, square};

const FIRST: &str = "adam_m";
const SECOND: &str = "adam_v";
const COUNT: &str = "adam_t";

/// The Adam optimizer of Kingma & Ba, with bias correction and without weight decay, as `torch.optim.Adam`
/// and `optax.adam`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Adam, Optimizer};
///
/// let adam = Adam { beta2: 0.99.into(), ..Adam::new(3e-4) };
/// g.function("train", [x], [loss], adam.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adam {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moment.
    pub beta2: Schedule,
    /// A small number that is added to the root of the corrected second moment.
    pub epsilon: Schedule,
}

impl Adam {
    /// The defaults of the paper, PyTorch and optax: betas 0.9 and 0.999, epsilon 1e-8.
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-8.into(),
        }
    }
}

/// The AdamW optimizer of Loshchilov & Hutter, as `torch.optim.AdamW` and `optax.adamw`: [`Adam`], with a
/// decay of weights that is multiplied by the learning rate and goes into no moment.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{AdamW, Optimizer};
///
/// let adamw = AdamW { weight_decay: 0.1.into(), exclude: vec!["bias$".to_owned()], ..AdamW::new(3e-4) };
/// g.function("train", [x], [loss], adamw.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdamW {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The fraction of a weight that a step subtracts from it, per unit of learning rate.
    pub weight_decay: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moment.
    pub beta2: Schedule,
    /// A small number that is added to the root of the corrected second moment.
    pub epsilon: Schedule,
    /// A small number that is added under the root.
    pub epsilon_root: Schedule,
    /// Whether the first moment looks a step ahead; see [`NAdam`](crate::NAdam).
    pub nesterov: bool,
    /// Whether the decay is added to the gradient, as in `torch.optim.Adam`.
    pub coupled_decay: bool,
    /// Regular expressions. A variable in whose name one of them matches is not decayed.
    pub exclude: Vec<String>,
}

impl AdamW {
    /// PyTorch's defaults: decay 0.01, betas 0.9 and 0.999, epsilon 1e-8. (The default decay of optax is
    /// 1e-4.)
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self { weight_decay: 0.01.into(), ..Adam::new(learning_rate).into() }
    }

    /// Sets the weight decay.
    pub fn weight_decay(mut self, weight_decay: impl Into<Schedule>) -> Self {
        self.weight_decay = weight_decay.into();
        self
    }
}

impl From<Adam> for AdamW {
    fn from(adam: Adam) -> Self {
        let Adam { learning_rate, beta1, beta2, epsilon } = adam;
        Self {
            learning_rate,
            weight_decay: 0.0.into(),
            beta1,
            beta2,
            epsilon,
            epsilon_root: 0.0.into(),
            nesterov: false,
            coupled_decay: false,
            exclude: Vec::new(),
        }
    }
}

impl Optimizer for Adam {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        AdamW::from(self.clone()).apply_grad(grad, variable)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        AdamW::from(self.clone()).slot_names()
    }
}

impl Optimizer for AdamW {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let decay = decay(&self.weight_decay, self.coupled_decay, &self.exclude);
        let Some(mut step) = Descent::new(self, &decay, grad, variable) else {
            return Vec::new();
        };
        let t = step.count(COUNT);
        let m = step.first_moment(FIRST, &self.beta1, t, self.nesterov);
        let v = step.second_moment(SECOND, &self.beta2, t);
        step.end(m / (sqrt(v + &self.epsilon_root) + &self.epsilon), &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        vec![FIRST, SECOND, COUNT]
    }
}

fn decay(fraction: &Schedule, coupled: bool, exclude: &[String]) -> WeightDecay {
    WeightDecay { fraction: fraction.clone(), coupled, exclude: exclude.to_vec() }
}

/// Adam with weight decay as in BERT and Mesh TensorFlow: without bias correction. [`AdamW`] is the
/// standard form.
#[derive(Clone, Debug)]
pub struct AdamWeightDecay {
    /// The learning rate.
    pub learning_rate: Schedule,
    /// The fraction of a weight that a step subtracts from it, per unit of learning rate.
    pub weight_decay: Schedule,
    /// The decay of the first moment.
    pub beta1: Schedule,
    /// The decay of the second moment.
    pub beta2: Schedule,
    /// A small number that is added to the root of the second moment.
    pub epsilon: Schedule,
    /// Regular expressions. A variable in whose name one of them matches is not decayed.
    pub exclude: Vec<String>,
    /// Whether the moments are corrected for having started at zero. A slot then counts the
    /// updates.
    pub bias_correction: bool,
}

impl AdamWeightDecay {
    /// Mesh TensorFlow's defaults: no decay, betas 0.9 and 0.999, epsilon 1e-6, no bias correction.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{AdamWeightDecay, Optimizer};
    ///
    /// g.function("train", [x], [loss], AdamWeightDecay::new(3e-4).minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            weight_decay: 0.0.into(),
            beta1: 0.9.into(),
            beta2: 0.999.into(),
            epsilon: 1e-6.into(),
            exclude: Vec::new(),
            bias_correction: false,
        }
    }

    /// [`AdamW::new`] in this form: decay 0.01, betas 0.9 and 0.999, epsilon 1e-8,
    /// bias correction.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{AdamWeightDecay, Optimizer};
    ///
    /// let adam = AdamWeightDecay { exclude: vec!["bias$".to_owned()], ..AdamWeightDecay::standard(3e-4) };
    /// g.function("train", [x], [loss], adam.minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn standard(learning_rate: impl Into<Schedule>) -> Self {
        Self {
            weight_decay: 0.01.into(),
            epsilon: 1e-8.into(),
            bias_correction: true,
            ..Self::new(learning_rate)
        }
    }

    /// Sets the weight decay.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{AdamWeightDecay, Optimizer};
    ///
    /// let adam = AdamWeightDecay::new(3e-4).weight_decay(0.1);
    /// g.function("train", [x], [loss], adam.minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn weight_decay(mut self, weight_decay: impl Into<Schedule>) -> Self {
        self.weight_decay = weight_decay.into();
        self
    }
}

impl Optimizer for AdamWeightDecay {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let decay = decay(&self.weight_decay, false, &self.exclude);
        let Some(mut step) = Descent::new(self, &decay, grad, variable) else {
            return Vec::new();
        };
        let m = step.average(step.slot(FIRST), &self.beta1, grad);
        let v = step.average(step.slot(SECOND), &self.beta2, square(grad));
        let t = self.bias_correction.then(|| step.count(COUNT));
        let corrected = |x, beta: &Schedule| t.map_or(x, |t| step.unbiased(x, beta, t));
        let direction =
            corrected(m, &self.beta1) / (sqrt(corrected(v, &self.beta2)) + &self.epsilon);
        step.end(direction, &self.learning_rate)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let count = self.bias_correction.then_some(COUNT);
        [FIRST, SECOND].into_iter().chain(count).collect()
    }
}

impl Listed for AdamWeightDecay {
    const ABOUT: About = About {
        name: "adam",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²\n\
            w <- w - lr (m / (sqrt(v) + eps) + wd w)",
        paper: "Kingma & Ba 2015, arXiv 1412.6980, without the correction of bias, as Mesh TensorFlow and BERT \
                have it",
        peers: "PyTorch and optax correct bias (adamw with weight_decay 0) and have eps 1e-8.",
    };

    fn of_rate(rate: Schedule) -> Self {
        Self::new(rate)
    }

    fn with_rate(self, learning_rate: Schedule) -> Self {
        Self { learning_rate, ..self }
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "bias_correction": bias_correction,
            "weight_decay": weight_decay in FROM_0,
            "exclude": exclude,
        }
    }
}

impl Listed for AdamW {
    const ABOUT: About = About {
        name: "adamw",
        rate: 1e-3,
        formula: "\
            m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²\n\
            w <- w - lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + wd w)",
        paper: "Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm 2",
        peers: "PyTorch's weight decay is 0.01, as here, optax's 1e-4. PyTorch's Adam: weight_decay 0, and if it has \
                one, coupled_decay true; optax's adam: weight_decay 0.",
    };

    fn of_rate(rate: Schedule) -> Self {
        Self::new(rate)
    }

    fn with_rate(self, learning_rate: Schedule) -> Self {
        Self { learning_rate, ..self }
    }

    fn settings() -> Vec<Setting<Self>> {
        settings! {
            "beta1": beta1 in BELOW_1,
            "beta2": beta2 in BELOW_1,
            "epsilon": epsilon in FROM_0,
            "epsilon_root": epsilon_root in FROM_0,
            "nesterov": nesterov,
            "weight_decay": weight_decay in FROM_0,
            "coupled_decay": coupled_decay,
            "exclude": exclude,
        }
    }
}
