//! Optimizers as graph ops.
//!
//! An [`Optimizer`] says how one gradient changes one variable, in ops on tensors whose dims are
//! the variable's. It knows no mesh: how gradients are summed, where state lies and what is
//! gathered follow from the layout.

mod adafactor;
mod adam_wd;
mod microbatch;
mod optimizer;
mod rate;
pub mod schedule;
mod sgd;

pub use adafactor::Adafactor;
pub use adam_wd::AdamWeightDecay;
pub use microbatch::microbatches;
pub use optimizer::Optimizer;
pub use rate::LearningRate;
pub use sgd::Sgd;
