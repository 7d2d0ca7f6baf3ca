//! Layers: compositions of ops. No op is defined here.

mod cross_entropy;
mod dense;
mod softmax;

pub use cross_entropy::softmax_cross_entropy;
pub use dense::{Dense, dense};
pub use softmax::{
    log_softmax, log_softmax_with, logsumexp, logsumexp_with, softmax, softmax_with,
};
