//! Optimizers by flags and by configuration files.

use crate::report::remark;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use mesh_core::graph::{Tensor, Update};
use mesh_optimize::{
    Delayed, Entry, Momentum, Optimizer, OptimizerConfig, Schedule, Units, adaptive_clip,
    clip_by_global_norm, optimizers,
};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::path::Path;
use std::sync::LazyLock;

/// How a model is trained: by an optimizer that stands alone in the list of all.
#[derive(Clone, Copy, Debug)]
pub struct Method(&'static Entry);

impl Method {
    /// The optimizer of this name; of one that the list lacks, the list's first.
    pub fn named(name: &str) -> Self {
        let entries = optimizers();
        Self(entries.iter().find(|entry| entry.name() == name).unwrap_or(&entries[0]))
    }

    /// Its name in the list.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The rate that it takes if none is given.
    pub fn usual_rate(self) -> Schedule {
        self.0.usual_rate()
    }

    /// The usual rate where it is a number.
    pub fn usual_number(self) -> f64 {
        self.0.about().rate
    }

    /// Whether it has an option of this name.
    pub fn has(self, option: &str) -> bool {
        self.0.options().iter().any(|own| own.name == option)
    }

    /// The optimizer. A weight decay that is not given is the optimizer's own; `options` are others, by their
    /// names in configurations.
    pub fn optimizer(
        self,
        rate: &Schedule,
        weight_decay: Option<f64>,
        options: Vec<(&str, Value)>,
    ) -> Result<Box<dyn Optimizer>, String> {
        let decay = weight_decay.map(|decay| ("weight_decay", Value::from(decay)));
        let all = options.into_iter().chain(decay);
        let all = all.map(|(name, value)| (name.to_owned(), value)).collect();
        self.0.optimizer(rate, all).map_err(|error| {
            let text = error.to_string();
            text.strip_prefix("weight_decay")
                .map_or(text.clone(), |rest| format!("--weight-decay{rest}"))
        })
    }

    /// Refuses step sizes and decays that no run can have.
    pub fn check(self, lr: Option<f64>, weight_decay: Option<f64>) -> Result<(), String> {
        if let Some(lr) = lr.filter(|lr| !(*lr > 0.0 && lr.is_finite())) {
            return Err(format!("--lr {lr}: a step size is a positive number"));
        }
        if let Some(decay) = weight_decay.filter(|decay| !decay.is_finite()) {
            return Err(format!("--weight-decay {decay}: legal are 0 or a positive number"));
        }
        self.optimizer(&self.usual_rate(), weight_decay, Vec::new()).map(|_| ())
    }
}

impl ValueEnum for Method {
    fn value_variants<'a>() -> &'a [Self] {
        static ALONE: LazyLock<Vec<Method>> = LazyLock::new(|| {
            optimizers().iter().filter(|entry| !entry.wraps()).map(Method).collect()
        });
        &ALONE
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.0.about().paper))
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
    rate: Schedule,
    adaptive_clipping: Option<f64>,
    clipping: Option<f64>,
    settings: Vec<(String, String)>,
}

impl Training {
    /// Training as flags say; without a rate, with the optimizer's usual one.
    pub fn by_flags(
        method: Method,
        rate: Option<Schedule>,
        weight_decay: Option<f64>,
    ) -> Result<Self, String> {
        let rate = rate.unwrap_or_else(|| method.usual_rate());
        let optimizer = method.optimizer(&rate, weight_decay, Vec::new())?;
        Ok(Self { optimizer, rate, adaptive_clipping: None, clipping: None, settings: Vec::new() })
    }

    /// The optimizer for comparing layouts: it has slots and is linear in the gradients. Others
    /// divide by roots of numbers that may be close to zero, where rounding errors are not small.
    pub fn to_compare() -> Self {
        let (optimizer, rate) = (linear(), 0.1.into());
        Self { optimizer, rate, adaptive_clipping: None, clipping: None, settings: Vec::new() }
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
            adaptive_clipping: config.adaptive_clipping(),
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
        let mut grads = self.optimizer.compute_gradients(loss);
        if let Some(clipping) = self.adaptive_clipping {
            grads = adaptive_clip(&grads, clipping, 1e-3, &Units::ByRank);
        }
        if let Some(norm) = self.clipping {
            grads = clip_by_global_norm(&grads, norm).0;
        }
        (self.optimizer.apply_grads(&grads), self.rate.at(loss.graph(), loss.dtype()))
    }

    /// A result with the weights that the optimizer evaluates with.
    #[track_caller]
    pub fn for_evaluation<'g>(&self, result: Tensor<'g>) -> Tensor<'g> {
        self.optimizer.for_evaluation(&[result])[0]
    }
}
