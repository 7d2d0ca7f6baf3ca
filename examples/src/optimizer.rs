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

/// What a configuration file says, key by key, for a run that goes on: the same keys and values are the
/// same run, wherever the file is and however it is written.
pub fn settings(keys: &Map<String, Value>) -> Vec<(String, String)> {
    keys.iter().map(|(key, value)| (format!("config {key}"), value.to_string())).collect()
}

/// See [`Training::to_compare`].
pub fn linear() -> Box<dyn Optimizer> {
    Box::new(Momentum::new(0.1, 0.9))
}

/// How a model is trained: by flags or by a file.
pub struct Training {
    optimizer: Box<dyn Optimizer>,
    rate: LearningRate,
    clipping: Option<f64>,
    settings: Vec<(String, String)>,
}

impl Training {
    /// By flags. Only Adam has weight decay, and only Adafactor a rate of its own.
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

    /// With what layouts are compared: it has slots, and is linear in the gradients. Others divide by
    /// roots of what may be next to nothing, where rounding is no longer small.
    pub fn to_compare() -> Self {
        Self { optimizer: linear(), rate: 0.1.into(), clipping: None, settings: Vec::new() }
    }

    /// By a configuration file for this many examples a step. What its author should know goes to
    /// standard error.
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

    /// The same with gradients that are applied so many steps later.
    pub fn delayed(self, staleness: usize) -> Self {
        if staleness == 0 {
            return self;
        }
        Self { optimizer: Box::new(Delayed::new(self.optimizer, staleness)), ..self }
    }

    /// What a function that trains on `loss` lists as updates, and the rate it trains at.
    #[track_caller]
    pub fn minimize<'g>(&self, loss: Tensor<'g>) -> (Vec<Update<'g>>, Tensor<'g>) {
        let mut grads = compute_gradients(loss, &[]);
        if let Some(norm) = self.clipping {
            grads = clip_by_global_norm(&grads, norm).0;
        }
        (self.optimizer.apply_grads(&grads), self.rate.at(loss.graph(), loss.dtype()))
    }
}
