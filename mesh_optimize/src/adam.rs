//! Adam with weight decay that is decoupled from the gradient: the form of BERT and Mesh
//! TensorFlow, and the standard form.
//!
//! Kingma & Ba 2015 (arXiv 1412.6980), algorithm 1, with the decay of Loshchilov & Hutter 2019
//! (arXiv 1711.05101), algorithm 2; t counts the updates of the variable from 1:
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²
//! w <- w - lr (m / (sqrt(v) + eps) + wd w)                                    (Mesh TensorFlow)
//! w <- w - lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + wd w)          (standard)
//! ```

use crate::{LearningRate, Optimizer, pattern};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Shape};
use mesh_ops::elementwise::{cast, pow, sqrt, square};

const FIRST: &str = "adam_m";
const SECOND: &str = "adam_v";
const COUNT: &str = "adam_t";

/// The Adam optimizer with weight decay.
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

    /// The standard AdamW with PyTorch's defaults: decay 0.01, betas 0.9 and 0.999, epsilon 1e-8,
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
