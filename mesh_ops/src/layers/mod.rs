//! Layers: compositions of ops. No op is defined here.

mod conv;
mod cross_entropy;
mod dense;
mod softmax;

pub use conv::{ConvLayer, conv_layer, separable_conv_layer};
pub use cross_entropy::softmax_cross_entropy;
pub use dense::{Dense, dense};
pub use softmax::{log_softmax, logsumexp, softmax};
