//! Optimizers as graph ops.
//!
//! An [`Optimizer`] says how one gradient changes one variable, in ops on tensors whose dims are
//! the variable's. It knows no mesh: how gradients are summed, where state lies and what is
//! gathered follow from the layout.

mod adafactor;
mod adam_wd;
mod clip;
mod microbatch;
mod optimizer;
mod rate;
pub mod schedule;
mod sgd;

pub use adafactor::Adafactor;
pub use adam_wd::AdamWeightDecay;
pub use clip::{
    clip_by_global_norm, clip_by_norm, clip_by_value, clip_per_replica, per_replica,
    per_replica_gradients,
};
pub use microbatch::microbatches;
pub use optimizer::Optimizer;
pub use rate::LearningRate;
pub use sgd::Sgd;
