//! Layers: compositions of ops. No op is defined here.
//!
//! Short forms make their variables (`x.dense(hidden, "name")`); structs describe layers whose
//! weights are made apart ([`Parameters`], [`Weights`]).

mod activation;
pub mod attention;
mod batch_norm;
mod beam_search;
mod clip_gradient;
mod conv;
mod cross_entropy;
mod dense;
mod embedding;
mod feed_forward;
pub(crate) mod fit;
mod losses;
pub mod moe;
mod norm;
mod parameters;
mod softmax;
mod transformer;

pub use activation::Activation;
pub use batch_norm::{BatchNorm, BatchNormWeights, batch_norm};
pub use beam_search::BeamSearch;
pub use clip_gradient::clip_activation_gradient;
pub use conv::{ConvLayer, conv_layer, separable_conv_layer};
pub use cross_entropy::{CrossEntropy, softmax_cross_entropy};
pub use dense::{Dense, DenseWeights, dense};
pub use embedding::{embed, embedding, embedding_logits, embedding_weights};
pub use feed_forward::{FeedForward, FeedForwardWeights, dense_product, dense_relu_dense};
pub use losses::{sigmoid_cross_entropy, weighted_mean, weights_nonzero};
pub use norm::{NORM_EPSILON, Norm, NormWeights, layer_norm, rms_norm};
pub use parameters::{Parameters, Weights};
pub use softmax::{
    log_softmax, log_softmax_with, logsumexp, logsumexp_with, softmax, softmax_with,
};
pub use transformer::{Around, TransformerLayer, TransformerLayerWeights};
