//! Optimizers as graph ops, and the training loop around them.
//!
//! An [`Optimizer`] says how one gradient changes one variable, with ops on tensors that have the
//! variable's dims. It knows no mesh: the layout decides how gradients are summed, where optimizer
//! state lies and what is gathered.

mod adafactor;
mod adam;
mod by_name;
mod clip;
pub mod cluster;
mod config;
mod cross_shard;
pub mod dataset;
mod delayed;
mod microbatch;
mod momentum;
mod optimizer;
mod pattern;
mod range;
mod rate;
pub mod schedule;
mod sgd;
mod sizes;
mod strategy;
pub mod training;

pub use adafactor::{Adafactor, Decay, Factoring, step_noise};
pub use adam::{Adam, AdamW, AdamWeightDecay};
pub use by_name::ByName;
pub use clip::{
    clip_by_global_norm, clip_by_norm, clip_by_value, clip_per_replica, per_replica,
    per_replica_gradients,
};
pub use config::{ConfigError, OptimizerConfig, OptimizerName, get_optimizer};
pub use cross_shard::{
    GroupError, Groups, ReducedError, Reduction, UnknownReduction, Unreduced, assert_reduced,
    cross_shard_loss,
};
pub use delayed::Delayed;
pub use microbatch::{microbatches, microbatches_with_metrics};
pub use momentum::Momentum;
pub use optimizer::{Optimizer, compute_gradients};
pub use rate::LearningRate;
pub use sgd::Sgd;
pub use sizes::{BatchSize, SizeError, TOKENS, machine_mesh, microbatch_count, train_steps};
pub use strategy::{CrossDeviceOps, Distribution, Processors, Strategy, StrategyError};
