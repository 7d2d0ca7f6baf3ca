//! Optimizers from configuration files.
//!
//! A file names an optimizer, its learning rate and its clipping of gradients. The keys are those
//! of GPT-style Mesh TensorFlow models and, for Adafactor, those of tensor2tensor:
//!
//! | key | what it is | if absent |
//! |---|---|---|
//! | `opt_name` | a name of [`optimizers`](crate::optimizers), as `adam` or `lion`, in any case | an error |
//! | `lr` | the largest rate | Adafactor's own rate; an error with others |
//! | `lr_by_batch` | rates by `train_batch_size`, instead of `lr` | |
//! | `train_batch_size` | examples a step, over all processors | |
//! | `lr_decay` | `linear`, `polynomial`, `cosine`, `exponential`: to a tenth of `lr`; `stable`: to a tenth in the last steps; `restarts`: the cosine again and again; `one_cycle`: up to `lr` and down | `lr` stays |
//! | `lr_decay_end` | the step at which the decay ends | `train_steps` |
//! | `lr_decay_power`, `lr_decay_cycle` | of the polynomial | 1, false |
//! | `lr_decay_steps` | of `stable` the last steps, of `restarts` the first period | a fifth of the decay's end |
//! | `lr_decay_growth` | of `restarts`: how many times as long the next period is | 1 |
//! | `train_steps` | steps of training | |
//! | `warmup_steps` | steps in which the rate grows from 0 | 0 |
//! | `gradient_clipping` | the largest norm of all gradients together, or null | not clipped |
//! | `adaptive_clipping` | the largest norm of a unit's gradient over that of its weights, or null | not clipped |
//! | `inner` | of an optimizer around another one: the other's `opt_name` and options | an error |
//! | `exclude` | patterns in names of variables that are not decayed | `["norm", "bias"]` |
//! | `weight_decay` | not of adafactor | the optimizer's own: 0 for adam, 0.01 for adamw |
//! | `beta1`, `beta2` | of adam and adamw; `beta1` also of adafactor | 0.9 (adafactor 0), 0.999 |
//! | `epsilon` | of adam and adamw | 1e-6; adamw 1e-8 |
//! | `momentum`, `nesterov` | of momentum | 0.9, false |
//! | `ada_epsilon1`, `ada_epsilon2` | of adafactor | 1e-30, 1e-3 |
//! | `ada_decay_rate` | of adafactor: a constant decay of the second moment | 1 - (t+1)^-0.8 |
//! | `optimizer_adafactor_decay_type` | `pow` or `Adam` | `pow` |
//! | `optimizer_adafactor_memory_exponent` | of `pow` | 0.8 |
//! | `optimizer_adafactor_beta2` | of `Adam` | 0.999 |
//! | `optimizer_adafactor_beta1` | as `beta1` | 0 |
//! | `optimizer_adafactor_multiply_by_parameter_scale` | whether steps are relative | true |
//! | `optimizer_adafactor_clipping_threshold` | of updates; null does not clip | 1 |
//! | `optimizer_adafactor_factored` | whether matrices keep means only | true |
//! | `simulated_parameter_quantize_bits` | 2 to 22 bits, 0 for none | 0 |
//! | `use_tpu` | a note: nothing needs a wrapper here | false |
//!
//! A number by which an optimizer computes, as `beta1` or `epsilon`, may be an object instead: `{"from": 0.85, "to": 0.95,
//! "steps": 300}` goes from the one to the other along a line, and stays.
//!
//! If a key of tensor2tensor's is there, Adafactor starts from [`Adafactor::tensor2tensor`],
//! otherwise from Mesh TensorFlow's defaults. The other options of each optimizer are its own
//! ([`Entry::options`], docs/optimizers.md). Published files have the keys of several optimizers at once: if
//! `opt_name` is adam, adamw, adafactor, sgd or momentum, the keys of the table that belong to others of these
//! five are checked and have no effect. Every other key of another optimizer is an error, as is a
//! `weight_decay` that the optimizer does not apply.

mod decay;
mod named;
mod read;
mod updates;

pub use updates::get_optimizer;

use crate::options::{Entry, Prototype};
use crate::{Optimizer, Schedule, schedule};
use decay::RateDecay;
use std::sync::Arc;

/// An optimizer's configuration, read from a file and checked.
///
/// ```
/// use mesh_optimize::{Optimizer, OptimizerConfig, Sgd};
///
/// let config = OptimizerConfig::from_json(
///     r#"{"opt_name": "adam", "lr": 3e-4, "lr_decay": "cosine", "train_steps": 10000,
///         "warmup_steps": 100, "weight_decay": 0.1, "gradient_clipping": 1.0}"#,
/// )?;
/// assert_eq!((config.name(), config.gradient_clipping()), ("adam", Some(1.0)));
/// assert_eq!((config.train_steps(), config.train_batch_size()), (Some(10_000), None));
/// assert!(config.notes().is_empty());
/// let optimizer = config.optimizer();
/// assert_eq!(optimizer.slot_names(), ["adam_m", "adam_v"]);
/// let descent = Sgd::new(config.learning_rate()); // another optimizer with the same rate
///
/// let error = OptimizerConfig::from_toml("opt_name = 'sgd'\nlr = 0.1\nwarmup_stesp = 3").unwrap_err();
/// assert!(error.to_string().contains("did you mean `warmup_steps`?"));
/// # Ok::<(), mesh_optimize::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OptimizerConfig {
    entry: &'static Entry,
    prototype: Arc<dyn Prototype>,
    rate: Option<f64>,
    decay: RateDecay,
    warmup_steps: u64,
    gradient_clipping: Option<f64>,
    adaptive_clipping: Option<f64>,
    train_steps: Option<u64>,
    train_batch_size: Option<u64>,
    notes: Vec<String>,
}

impl OptimizerConfig {
    /// The name of the optimizer, as the list of all has it: `opt_name`.
    pub fn name(&self) -> &'static str {
        self.entry.name()
    }

    /// The largest norm of all gradients together: `gradient_clipping`.
    pub fn gradient_clipping(&self) -> Option<f64> {
        self.gradient_clipping
    }

    /// The largest norm of a unit's gradient, as a part of the norm of its weights: `adaptive_clipping`.
    ///
    /// ```
    /// let text = "opt_name = 'sgd'\nlr = 0.1\nadaptive_clipping = 0.01";
    /// let config = mesh_optimize::OptimizerConfig::from_toml(text)?;
    /// assert_eq!(config.adaptive_clipping(), Some(0.01));
    /// # Ok::<(), mesh_optimize::ConfigError>(())
    /// ```
    pub fn adaptive_clipping(&self) -> Option<f64> {
        self.adaptive_clipping
    }

    /// The number of training steps: `train_steps`.
    pub fn train_steps(&self) -> Option<u64> {
        self.train_steps
    }

    /// The number of examples per step, over all processors: `train_batch_size`.
    pub fn train_batch_size(&self) -> Option<u64> {
        self.train_batch_size
    }

    /// Remarks for the author of the configuration: keys that have no effect here, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The learning rate with its decay, multiplied by `t / warmup_steps` in the first
    /// `warmup_steps`.
    pub fn learning_rate(&self) -> Schedule {
        let decayed = match self.rate {
            None => self.prototype.own_rate().unwrap_or_else(|| 0.0.into()),
            Some(rate) => self.decay.rate(rate),
        };
        schedule::with_warmup(decayed, self.warmup_steps)
    }

    /// The optimizer with this learning rate. It does not clip; [`get_optimizer`] does.
    pub fn optimizer(&self) -> Box<dyn Optimizer> {
        self.prototype.optimizer(&self.learning_rate())
    }
}
