//! Optimizers as graph ops.
//!
//! An [`Optimizer`] says how one gradient changes one variable, in ops on tensors whose dims are
//! the variable's. It knows no mesh: how gradients are summed, where state lies and what is
//! gathered follow from the layout.

mod adafactor;
mod adam;
mod by_name;
mod clip;
mod config;
mod delayed;
mod microbatch;
mod momentum;
mod optimizer;
mod pattern;
mod rate;
pub mod schedule;
mod sgd;

pub use adafactor::{Adafactor, Decay, Factoring, step_noise};
pub use adam::AdamWeightDecay;
pub use by_name::ByName;
pub use clip::{
    clip_by_global_norm, clip_by_norm, clip_by_value, clip_per_replica, per_replica,
    per_replica_gradients,
};
pub use config::{ConfigError, Named, OptimizerConfig, get_optimizer};
pub use delayed::Delayed;
pub use microbatch::microbatches;
pub use momentum::Momentum;
pub use optimizer::{Optimizer, compute_gradients};
pub use rate::LearningRate;
pub use sgd::Sgd;
