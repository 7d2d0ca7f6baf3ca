//! Adam with weight decay as in BERT and Mesh TensorFlow: no bias correction, epsilon outside the
//! root, decay decoupled from the gradient.
//!
//! Kingma & Ba 2015, algorithm 1 without the two correction lines; Loshchilov & Hutter 2019:
//!
//! ```text
//! m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g²
//! w <- w - lr (m / (sqrt(v) + eps) + wd w)
//! ```

use crate::{LearningRate, Optimizer};
use mesh_core::graph::{Initializer, Tensor, Update, Variable};
use mesh_ops::elementwise::{cast, sqrt, square};

/// Adam with weight decay.
#[derive(Clone, Debug)]
pub struct AdamWeightDecay {
    /// Step size.
    pub learning_rate: LearningRate,
    /// Fraction of the weight taken off per step and unit of learning rate.
    pub weight_decay: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Variables whose name contains one of these are not decayed.
    pub exclude: Vec<String>,
}

impl AdamWeightDecay {
    /// Mesh TensorFlow's defaults: no decay, betas 0.9 and 0.999, epsilon 1e-6.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            weight_decay: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            exclude: Vec::new(),
        }
    }

    /// Another weight decay.
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.weight_decay = weight_decay;
        self
    }

    fn decays(&self, name: &str) -> bool {
        self.weight_decay != 0.0 && !self.exclude.iter().any(|pattern| name.contains(pattern))
    }
}

impl Optimizer for AdamWeightDecay {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let slot = |name| variable.slot(name, variable.shape(), grad.dtype(), Initializer::ZEROS);
        let (slot_m, slot_v) = (slot("adam_m"), slot("adam_v"));
        let m = slot_m.stored() * self.beta1 + grad * (1.0 - self.beta1);
        let v = slot_v.stored() * self.beta2 + square(grad) * (1.0 - self.beta2);
        let mut update = m / (sqrt(v) + self.epsilon);
        if self.decays(&variable.name()) {
            let value = cast(variable.value_for_update(), grad.dtype());
            update = update + value * self.weight_decay;
        }
        let rate = self.learning_rate.at(grad.graph(), grad.dtype());
        let delta = cast(update * rate, variable.dtype());
        vec![variable.assign_sub(delta), slot_m.assign(m), slot_v.assign(v)]
    }
}
