//! Optimizers by flags and by configuration files.

use crate::report::remark;
use clap::ValueEnum;
use mesh_core::graph::{Tensor, Update};
use mesh_optimize::{
    Adafactor, AdamWeightDecay, Delayed, LearningRate, Momentum, Optimizer, OptimizerConfig, Sgd,
    clip_by_global_norm, compute_gradients,
};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::path::Path;

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
    /// The optimizer. Only Adam has weight decay.
    pub fn optimizer(self, rate: LearningRate, weight_decay: f64) -> Box<dyn Optimizer> {
        match self {
            Self::Sgd => Box::new(Sgd::new(rate)),
            Self::Adam => Box::new(AdamWeightDecay::new(rate).weight_decay(weight_decay)),
            Self::Adafactor => Box::new(Adafactor::default().learning_rate(rate)),
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

/// The keys and values of a configuration file, as settings that a resumed run must have in common
/// with the run before. Name and format of the file do not matter.
pub fn settings(keys: &Map<String, Value>) -> Vec<(String, String)> {
    keys.iter().map(|(key, value)| (format!("config {key}"), value.to_string())).collect()
}

/// See [`Training::to_compare`].
pub fn linear() -> Box<dyn Optimizer> {
    Box::new(Momentum::new(0.1, 0.9))
}

/// How a model is trained: as flags or a file say.
pub struct Training {
    optimizer: Box<dyn Optimizer>,
    rate: LearningRate,
    clipping: Option<f64>,
    settings: Vec<(String, String)>,
}

impl Training {
    /// Training as flags say. Only Adam has weight decay, and only Adafactor a rate of its own.
    pub fn by_flags(method: Method, rate: Option<LearningRate>, weight_decay: f64) -> Self {
        let own = || match method {
            Method::Sgd => 0.1.into(),
            Method::Adam => 1e-3.into(),
            Method::Adafactor => Adafactor::default().relative_rate(),
        };
        let rate = rate.unwrap_or_else(own);
        let optimizer = method.optimizer(rate.clone(), weight_decay);
        Self { optimizer, rate, clipping: None, settings: Vec::new() }
    }

    /// The optimizer for comparing layouts: it has slots and is linear in the gradients. Others
    /// divide by roots of numbers that may be close to zero, where rounding errors are not small.
    pub fn to_compare() -> Self {
        Self { optimizer: linear(), rate: 0.1.into(), clipping: None, settings: Vec::new() }
    }

    /// Training as a configuration file says, for this many examples per step. Notes for the file's
    /// author are written to standard error.
    pub fn by_file(path: &Path, batch: usize) -> Result<Self, String> {
        let named = |problem: &dyn Display| format!("--config {}: {problem}", path.display());
        let mut keys = OptimizerConfig::read(path).map_err(|e| format!("--config {e}"))?;
        let batch = Value::from(batch);
        let given = keys.entry("train_batch_size").or_insert_with(|| batch.clone());
        if given.as_f64() != batch.as_f64() {
            return Err(named(&format_args!(
                "train_batch_size: it says {given}, and --batch says {batch}; make them equal"
            )));
        }
        let settings = settings(&keys);
        let config = OptimizerConfig::from_map(keys).map_err(|error| named(&error))?;
        config.notes().iter().for_each(|note| remark(&format!("note: {note}")));
        Ok(Self {
            optimizer: config.optimizer(),
            rate: config.learning_rate(),
            clipping: config.gradient_clipping(),
            settings,
        })
    }

    /// What a file says, as [`settings`] has it.
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// The same training with gradients up to `staleness` steps old.
    pub fn delayed(self, staleness: usize) -> Self {
        if staleness == 0 {
            return self;
        }
        Self { optimizer: Box::new(Delayed::new(self.optimizer, staleness)), ..self }
    }

    /// The updates for a function that trains on `loss`, and the learning rate.
    #[track_caller]
    pub fn minimize<'g>(&self, loss: Tensor<'g>) -> (Vec<Update<'g>>, Tensor<'g>) {
        let mut grads = compute_gradients(loss, &[]);
        if let Some(norm) = self.clipping {
            grads = clip_by_global_norm(&grads, norm).0;
        }
        (self.optimizer.apply_grads(&grads), self.rate.at(loss.graph(), loss.dtype()))
    }
}
