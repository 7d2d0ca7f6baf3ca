//! The optimizers that flags name.

use clap::ValueEnum;
use mesh_optimize::{Adafactor, AdamWeightDecay, LearningRate, Optimizer, Sgd};

/// How a model is trained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Method {
    /// Gradient descent.
    Sgd,
    /// Adam with weight decay, without bias correction.
    Adam,
    /// Adafactor with Mesh TensorFlow's defaults.
    Adafactor,
}

impl Method {
    /// The optimizer. Only Adam has weight decay, and only Adafactor a rate of its own.
    pub fn optimizer(self, rate: Option<LearningRate>, weight_decay: f64) -> Box<dyn Optimizer> {
        match self {
            Self::Sgd => Box::new(Sgd::new(rate.unwrap_or(0.1.into()))),
            Self::Adam => {
                let adam = AdamWeightDecay::new(rate.unwrap_or(1e-3.into()));
                Box::new(adam.weight_decay(weight_decay))
            }
            Self::Adafactor => Box::new(Adafactor { learning_rate: rate, ..Adafactor::default() }),
        }
    }

    /// Refuses step sizes and decays that no run can have.
    pub fn check(self, lr: Option<f64>, weight_decay: f64) -> Result<(), String> {
        if let Some(lr) = lr.filter(|lr| !(*lr > 0.0 && lr.is_finite())) {
            return Err(format!("--lr {lr}: a step size is a positive number"));
        }
        if !(weight_decay >= 0.0 && weight_decay.is_finite()) {
            return Err(format!("--weight-decay {weight_decay}: legal are 0 or a positive number"));
        }
        if weight_decay != 0.0 && self != Self::Adam {
            return Err(format!("--weight-decay {weight_decay}: only --optimizer adam has it"));
        }
        Ok(())
    }
}
