//! Experts that are mixtures themselves.

use super::{Gating, MixtureOfExperts, MixtureWeights, Router, RouterLosses};
use crate::layers::Parameters;
use crate::layers::parameters::weights;
use crate::room::*;

/// A mixture of mixtures of feed-forward layers.
///
/// A first router sends tokens to outer experts, and the router of each of these sends what it got to
/// its inner experts (Shazeer et al. 2017, arXiv 1701.06538, appendix B; Mesh TensorFlow's
/// `transformer_moe_layer_v2`).
///
/// A token's second choice of the first router goes to one inner expert only. On a mesh of two axes
/// each kind of experts has an axis of its own: with `batch:rows+cols;outer:cols;
/// batch_at_outer:rows;inner:rows` tokens travel by an all-to-all over one axis, then by one over the
/// other, and back.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Parameters;
/// use mesh_ops::layers::moe::{Gating, HierarchicalMixture};
/// # let g = mesh_ops::graph();
/// let (batch, length, model) = (dim("batch", 4), dim("length", 16), dim("model", 8));
/// let x = g.input("x", [batch, length, model], F32);
/// let experts = [dim("outer", 4), dim("inner", 2)];
/// let gating = Gating::TopTwo { threshold: 0.0 };
/// let mixture = HierarchicalMixture::new(model, dim("hidden", 32), experts, gating);
/// let weights = mixture.weights(&Parameters::like(x), "moe");
/// assert_eq!(weights.inner.router.shape().to_string(), "[outer:4, model:8, inner_whole:2]");
/// let (y, losses) = mixture.apply(x, &[batch, length], &weights, None);
/// assert_eq!(y.shape(), x.shape());
/// assert!(losses.balance.shape().is_scalar());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HierarchicalMixture {
    /// Sends tokens to outer experts.
    pub outer: Router,
    /// What each outer expert is.
    pub inner: MixtureOfExperts,
}

/// Weights of a [`HierarchicalMixture`].
#[derive(Clone, Debug)]
pub struct HierarchicalWeights<'g> {
    /// From the model to the gates of outer experts, `[model, {outer}_whole]`.
    pub outer: Tensor<'g>,
    /// With the dim of outer experts in front.
    pub inner: MixtureWeights<'g>,
}
weights!(HierarchicalWeights { outer, inner });

impl HierarchicalMixture {
    /// Outer and inner experts, in this order, with the same gating; the inner ones are feed-forward
    /// layers with relu and no biases.
    pub fn new(
        model: Dimension,
        hidden: Dimension,
        [outer, inner]: [Dimension; 2],
        gating: Gating,
    ) -> Self {
        Self {
            outer: Router::new(model, outer, gating),
            inner: MixtureOfExperts::new(model, hidden, inner, gating).for_each(outer),
        }
    }

    /// New variables `{name}/router`, `{name}/inner/router` and those of the feed-forward layers under
    /// `{name}/inner/experts`.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> HierarchicalWeights<'g> {
        let _layer = parameters.graph().for_layer("hierarchical_mixture");
        let _scope = parameters.scope(name);
        let outer = self.outer.weights(parameters);
        HierarchicalWeights { outer, inner: self.inner.weights(parameters, "inner") }
    }

    /// As [`MixtureOfExperts::apply`]. Losses are the sums of those of both levels; at the inner one,
    /// means over outer experts.
    #[track_caller]
    pub fn apply<'g>(
        &self,
        x: Tensor<'g>,
        tokens: &[Dimension],
        weights: &HierarchicalWeights<'g>,
        importance: Option<Tensor<'g>>,
    ) -> (Tensor<'g>, RouterLosses<'g>) {
        let _layer = x.graph().for_layer("hierarchical_mixture");
        let op = "hierarchical_mixture";
        let Some(routed) = self.outer.route(op, x, tokens, weights.outer, importance) else {
            return (x.poisoned(), RouterLosses::poisoned(x));
        };
        let (there, found) = (routed.dispatched(), Some(routed.importance()));
        let (h, inner) = self.inner.apply(there, &routed.places(), &weights.inner, found);
        let outer = routed.losses;
        let losses = RouterLosses { balance: outer.balance + inner.balance, z: outer.z + inner.z };
        (routed.combined(h), losses)
    }
}
