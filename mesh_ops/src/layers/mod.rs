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
mod dense;
mod embedding;
mod feed_forward;
pub(crate) mod fit;
mod group_norm;
mod losses;
pub mod moe;
mod norm;
mod parameters;
mod recurrent;
mod response_norm;
mod softmax;
mod state_space;
mod transformer;

pub use activation::Activation;
pub use batch_norm::{BatchNorm, BatchNormWeights, batch_norm};
pub use beam_search::BeamSearch;
pub use clip_gradient::clip_activation_gradient;
pub use conv::{ConvLayer, conv_layer, separable_conv_layer};
pub use dense::{Dense, DenseWeights, dense};
pub use embedding::{embed, embedding, embedding_logits, embedding_weights};
pub use feed_forward::{FeedForward, FeedForwardWeights, dense_product, dense_relu_dense};
pub use group_norm::{GroupNorm, group_norm, instance_norm};
pub use losses::{
    CrossEntropy, Ctc, GAUSSIAN_EPSILON, absolute_error, binary_cross_entropy,
    cosine_embedding_loss, cosine_similarity, gaussian_nll, hinge_embedding_loss, hinge_loss,
    huber_loss, kl_divergence, log_cosh, margin_ranking_loss, nt_xent, poisson_nll,
    sigmoid_cross_entropy, sigmoid_focal_loss, smooth_l1_loss, softmax_cross_entropy,
    squared_error, triplet_margin_loss, weighted_mean, weights_nonzero,
};
pub use norm::{NORM_EPSILON, Norm, NormWeights, layer_norm, rms_norm};
pub use parameters::{Parameters, Weights};
pub use recurrent::{Cell, CellState, CellWeights, Recurrent, RecurrentWeights, TorchName};
pub use response_norm::LocalResponseNorm;
pub use softmax::{
    log_softmax, log_softmax_with, logsumexp, logsumexp_with, softmax, softmax_with,
};
pub use state_space::{Mamba, MambaState, MambaWeights, selective_scan};
pub use transformer::{Around, TransformerLayer, TransformerLayerWeights};
