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

use crate::range::{BELOW_1, FROM_0, in_range};
use crate::{LearningRate, Optimizer, pattern};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Shape};
use mesh_ops::elementwise::{cast, pow, sqrt, square};

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
/// let adam = Adam { beta2: 0.99, ..Adam::new(3e-4) };
/// g.function("train", [x], [loss], adam.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adam {
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The decay of the first moment.
    pub beta1: f64,
    /// The decay of the second moment.
    pub beta2: f64,
    /// A small number that is added to the root of the corrected second moment.
    pub epsilon: f64,
}

impl Adam {
    /// The defaults of the paper, PyTorch and optax: betas 0.9 and 0.999, epsilon 1e-8.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { learning_rate: learning_rate.into(), beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
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
/// let adamw = AdamW { weight_decay: 0.1, exclude: vec!["bias$".to_owned()], ..AdamW::new(3e-4) };
/// g.function("train", [x], [loss], adamw.minimize(loss));
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdamW {
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The fraction of a weight that a step subtracts from it, per unit of learning rate.
    pub weight_decay: f64,
    /// The decay of the first moment.
    pub beta1: f64,
    /// The decay of the second moment.
    pub beta2: f64,
    /// A small number that is added to the root of the corrected second moment.
    pub epsilon: f64,
    /// Regular expressions. A variable in whose name one of them matches is not decayed.
    pub exclude: Vec<String>,
}

impl AdamW {
    /// PyTorch's defaults: decay 0.01, betas 0.9 and 0.999, epsilon 1e-8. (The default decay of optax is
    /// 1e-4.)
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        let Adam { learning_rate, beta1, beta2, epsilon } = Adam::new(learning_rate);
        let exclude = Vec::new();
        Self { learning_rate, weight_decay: 0.01, beta1, beta2, epsilon, exclude }
    }

    /// Sets the weight decay.
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }
}

impl From<Adam> for AdamW {
    fn from(adam: Adam) -> Self {
        let Adam { learning_rate, beta1, beta2, epsilon } = adam;
        Self { learning_rate, weight_decay: 0.0, beta1, beta2, epsilon, exclude: Vec::new() }
    }
}

impl From<AdamW> for AdamWeightDecay {
    fn from(adamw: AdamW) -> Self {
        let AdamW { learning_rate, weight_decay, beta1, beta2, epsilon, exclude } = adamw;
        let bias_correction = true;
        Self { learning_rate, weight_decay, beta1, beta2, epsilon, exclude, bias_correction }
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
        AdamWeightDecay::from(self.clone()).apply_grad(grad, variable)
    }

    fn slot_names(&self) -> Vec<&'static str> {
        AdamWeightDecay::from(self.clone()).slot_names()
    }
}

/// Adam with weight decay as in BERT and Mesh TensorFlow: without bias correction. [`AdamW`] is the
/// standard form.
#[derive(Clone, Debug)]
pub struct AdamWeightDecay {
    /// The learning rate.
    pub learning_rate: LearningRate,
    /// The fraction of a weight that a step subtracts from it, per unit of learning rate.
    pub weight_decay: f64,
    /// The decay of the first moment.
    pub beta1: f64,
    /// The decay of the second moment.
    pub beta2: f64,
    /// A small number that is added to the root of the second moment.
    pub epsilon: f64,
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
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            weight_decay: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
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
    pub fn standard(learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            weight_decay: 0.01,
            epsilon: 1e-8,
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
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }

    /// The factors of the first and the second moment, and the update of the slot that counts the
    /// updates.
    fn correction<'g>(
        &self,
        variable: Variable<'g>,
        dtype: DType,
    ) -> ([Tensor<'g>; 2], Update<'g>) {
        let graph = variable.graph();
        let count = variable.slot(COUNT, Shape::scalar(), DType::I32, Initializer::ZEROS);
        let updates = count.stored() + 1.0;
        let factor = |beta: f64| {
            let power = pow(graph.scalar(beta, DType::F64), cast(updates, DType::F64));
            cast(1.0 / (1.0 - power), dtype)
        };
        ([factor(self.beta1), factor(self.beta2)], count.assign(updates))
    }
}

impl Optimizer for AdamWeightDecay {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let (graph, dtype) = (grad.graph(), grad.dtype());
        let options = [
            ("beta1", self.beta1, BELOW_1),
            ("beta2", self.beta2, BELOW_1),
            ("epsilon", self.epsilon, FROM_0),
            ("weight_decay", self.weight_decay, FROM_0),
        ];
        if !in_range(graph, "adam", &options) {
            return Vec::new();
        }
        let slot = |name| variable.slot(name, variable.shape(), dtype, Initializer::ZEROS);
        let (slot_m, slot_v) = (slot(FIRST), slot(SECOND));
        let m = slot_m.stored() * self.beta1 + grad * (1.0 - self.beta1);
        let v = slot_v.stored() * self.beta2 + square(grad) * (1.0 - self.beta2);
        let mut updates = vec![slot_m.assign(m), slot_v.assign(v)];
        let mut update = if self.bias_correction {
            let ([of_m, of_v], count) = self.correction(variable, dtype);
            updates.push(count);
            m * of_m / (sqrt(v * of_v) + self.epsilon)
        } else {
            m / (sqrt(v) + self.epsilon)
        };
        let spared = pattern::found(graph, "exclude", &self.exclude, &variable.name());
        if self.weight_decay != 0.0 && !spared {
            let value = cast(variable.value_for_update(), dtype);
            update = update + value * self.weight_decay;
        }
        let rate = self.learning_rate.at(graph, dtype);
        updates.insert(0, variable.assign_sub(cast(update * rate, variable.dtype())));
        updates
    }
    fn slot_names(&self) -> Vec<&'static str> {
        let count = self.bias_correction.then_some(COUNT);
        [FIRST, SECOND].into_iter().chain(count).collect()
    }
}
