//! Optimizers as graph ops, and the training loop around them.
//!
//! An [`Optimizer`] says how one gradient changes one variable, with ops on tensors that have the
//! variable's dims. It knows no mesh: the layout decides how gradients are summed, where optimizer
//! state lies and what is gathered.

mod adabelief;
mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod adan;
mod adaptive_clip;
mod ademamix;
mod adopt;
mod amsgrad;
mod by_name;
mod clip;
pub mod cluster;
mod config;
mod cross_shard;
pub mod dataset;
mod delayed;
mod descent;
mod lamb;
mod lars;
mod lion;
mod list;
mod matrices;
mod microbatch;
mod momentum;
mod muon;
mod nadam;
mod novograd;
mod optimizer;
mod options;
mod pattern;
mod prodigy;
mod radam;
mod rmsprop;
mod roots;
mod rprop;
pub mod schedule;
pub mod search;
mod sgd;
mod shampoo;
mod sign_sgd;
mod signum;
mod sizes;
mod sm3;
mod soap;
mod sophia;
mod strategy;
pub mod training;
mod trust;
mod weight_decay;
mod wrappers;
mod yogi;

pub use adabelief::AdaBelief;
pub use adadelta::Adadelta;
pub use adafactor::{Adafactor, Decay, Factoring, step_noise};
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW, AdamWeightDecay};
pub use adamax::Adamax;
pub use adan::Adan;
pub use adaptive_clip::{Units, adaptive_clip};
pub use ademamix::AdEmaMix;
pub use adopt::Adopt;
pub use amsgrad::AmsGrad;
pub use by_name::ByName;
pub use clip::{
    clip_by_global_norm, clip_by_norm, clip_by_value, clip_per_replica, per_replica,
    per_replica_gradients,
};
pub use config::{OptimizerConfig, get_optimizer};
pub use cross_shard::{
    GroupError, Groups, ReducedError, Reduction, UnknownReduction, Unreduced, assert_reduced,
    cross_shard_loss,
};
pub use delayed::Delayed;
pub use lamb::Lamb;
pub use lars::Lars;
pub use lion::Lion;
pub use list::optimizers;
pub use matrices::{Matrices, MatrixDims, Others};
pub use microbatch::{microbatches, microbatches_with_metrics};
pub use momentum::Momentum;
pub use muon::{JORDAN, Muon, MuonScale};
pub use nadam::NAdam;
pub use novograd::NovoGrad;
pub use optimizer::{Optimizer, compute_gradients};
pub use options::{About, ConfigError, Entry, OptionAbout};
pub use prodigy::Prodigy;
pub use radam::RAdam;
pub use rmsprop::RmsProp;
pub use rprop::Rprop;
pub use schedule::Schedule;
pub use sgd::Sgd;
pub use shampoo::Shampoo;
pub use sign_sgd::SignSgd;
pub use signum::Signum;
pub use sizes::{BatchSize, SizeError, TOKENS, machine_mesh, microbatch_count, train_steps};
pub use sm3::Sm3;
pub use soap::Soap;
pub use sophia::{Sophia, hutchinson};
pub use strategy::{CrossDeviceOps, Distribution, Processors, Strategy, StrategyError};
pub use trust::TrustRatio;
pub use weight_decay::WeightDecay;
pub use wrappers::{Accumulate, Ema, Lookahead, Sam, ScheduleFree, SkipNotFinite};
pub use yogi::Yogi;
