//! Mixture of experts: every token goes to one or two of many feed-forward layers.
//!
//! Tokens fall into groups, each of which may send at most *capacity* tokens to an expert; what does
//! not fit adds nothing. Groups lie where the batch lies. Dispatched tokens are `[experts_whole,
//! batch, ...]`; a rename of two dims makes them `[experts, batch_at_experts, ...]`:
//!
//! | layout | what the rename is, and the one back |
//! |---|---|
//! | `batch:all;experts:all` | all-to-all: tokens travel to their experts |
//! | `batch:all;batch_at_experts:all` | nothing: every processor has all experts |
//! | `batch:all` | all-gather: every processor does all experts for all tokens |
//!
//! Gates are computed in f32.
//!
//! | room | what it is |
//! |---|---|
//! | `router` | choices, places, losses |
//! | `hierarchical` | experts that are mixtures |

mod hierarchical;
mod router;

pub use hierarchical::{HierarchicalMixture, HierarchicalWeights};
pub use router::{Gating, Router, RouterLosses};

use super::parameters::weights;
use super::{FeedForward, FeedForwardWeights, Parameters};
use crate::room::*;

/// A mixture of feed-forward layers.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Parameters;
/// use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
/// # let g = mesh_ops::graph();
/// let (batch, length, model) = (dim("batch", 4), dim("length", 16), dim("model", 8));
/// let x = g.input("x", [batch, length, model], F32);
/// let mut experts = MixtureOfExperts::new(model, dim("hidden", 32), dim("experts", 4), Gating::Switch);
/// let weights = experts.weights(&Parameters::like(x), "moe");
/// experts.router.jitter = 0.01;
/// let (y, losses) = experts.apply(x, &[batch, length], &weights, None);
/// assert_eq!(y.shape(), x.shape());
/// let loss = y.square().mean() + losses.balance * 0.01 + losses.z * 0.001;
/// assert!(loss.shape().is_scalar());
/// assert_eq!(experts.router.capacity(16), 5);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MixtureOfExperts {
    /// Sends tokens to experts.
    pub router: Router,
    /// The layers, for each expert one.
    pub feed_forward: FeedForward,
}

/// Weights of a [`MixtureOfExperts`].
#[derive(Clone, Debug)]
pub struct MixtureWeights<'g> {
    /// From the model to gates, `[model, {experts}_whole]`.
    pub router: Tensor<'g>,
    /// Kernels with the dim of experts in front.
    pub feed_forward: FeedForwardWeights<'g>,
}
weights!(MixtureWeights { router, feed_forward });

impl MixtureOfExperts {
    /// Feed-forward layers with relu and no biases; capacity factor 1.25, at least 4 places.
    pub fn new(model: Dimension, hidden: Dimension, experts: Dimension, gating: Gating) -> Self {
        Self {
            router: Router::new(model, experts, gating),
            feed_forward: FeedForward::new(model, hidden).for_each([experts]),
        }
    }

    /// A mixture of its own, with a router and experts, for each index of `dim`, which tokens have.
    fn for_each(mut self, dim: Dimension) -> Self {
        self.feed_forward = self.feed_forward.for_each([dim, self.router.experts]);
        self.router.each = vec![dim];
        self
    }

    /// New variables `{name}/router` and those of the feed-forward layers under `{name}/experts`.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> MixtureWeights<'g> {
        let _layer = parameters.graph().for_layer("mixture_of_experts");
        let _scope = parameters.scope(name);
        MixtureWeights {
            router: self.router.weights(parameters),
            feed_forward: self.feed_forward.weights(parameters, "experts"),
        }
    }

    /// The result for `x`, whose dims are those of tokens and the model, and what is to be added to
    /// the loss.
    ///
    /// `importance`, by default 1 everywhere, has the dims of tokens: tokens with 0 go nowhere and
    /// count in no loss; those with less than 1 go to their first choice only and do not count in the
    /// balance.
    #[track_caller]
    pub fn apply<'g>(
        &self,
        x: Tensor<'g>,
        tokens: &[Dimension],
        weights: &MixtureWeights<'g>,
        importance: Option<Tensor<'g>>,
    ) -> (Tensor<'g>, RouterLosses<'g>) {
        let _layer = x.graph().for_layer("mixture_of_experts");
        let op = "mixture_of_experts";
        let Some(routed) = self.router.route(op, x, tokens, weights.router, importance) else {
            return (x.poisoned(), RouterLosses::poisoned(x));
        };
        let h = self.feed_forward.apply(routed.dispatched(), &weights.feed_forward);
        (routed.combined(h), routed.losses)
    }
}

/// Groups of tokens as Mesh TensorFlow cuts them: the number and the size of groups. The size is
/// the greatest up to `most` for which the number of groups is a multiple of `multiple`, which lets
/// them be split so; `None` if there is none.
///
/// ```
/// use mesh_ops::layers::moe::split_into_groups;
/// assert_eq!(split_into_groups(4096, 1024, 8), Some((8, 512)));
/// ```
pub fn split_into_groups(tokens: usize, most: usize, multiple: usize) -> Option<(usize, usize)> {
    let fits = |&size: &usize| {
        tokens.is_multiple_of(size) && (tokens / size).is_multiple_of(multiple.max(1))
    };
    (1..=most.min(tokens)).rev().find(fits).map(|size| (tokens / size, size))
}
