//! A transformer layer: attention and feed-forward, each behind a norm and added to its input.

use super::attention::{
    AttentionOptions, KeyValues, LocalAttention, MultiHead, MultiHeadWeights, Rotation,
};
use super::parameters::weights;
use super::{FeedForward, FeedForwardWeights, Norm, NormWeights, Parameters};
use crate::room::*;

/// `y = x + attention(norm(x))`, then `y + feed_forward(norm(y))`.
///
/// The weights of many layers, made with [`Parameters::stacked`], are one variable each; a loop over
/// layers applies slices of them ([`Weights`](super::Weights)).
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{AttentionOptions, MultiHead, causal};
/// use mesh_ops::layers::{Around, FeedForward, Norm, Parameters, TransformerLayer};
/// # let g = mesh_ops::graph();
/// let (batch, length, model) = (dim("batch", 2), dim("length", 16), dim("model", 32));
/// let layer = TransformerLayer {
///     norm: Norm::Rms,
///     attention: MultiHead::new(model, dim("heads", 4), dim("kv", 8)),
///     feed_forward: FeedForward::new(model, dim("hidden", 64)),
/// };
/// let x = g.input("x", [batch, length, model], F32);
/// let mask = Some(causal(&g, length));
/// let around = Around { attention: AttentionOptions { mask, ..Default::default() }, ..Default::default() };
/// let weights = layer.weights(&Parameters::like(x), "layer");
/// let y = layer.apply(x, length, &weights, &around);
/// assert_eq!(y.shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransformerLayer {
    /// Before each part.
    pub norm: Norm,
    /// Heads.
    pub attention: MultiHead,
    /// Hidden values.
    pub feed_forward: FeedForward,
}

/// Weights of a [`TransformerLayer`].
#[derive(Clone, Debug)]
pub struct TransformerLayerWeights<'g> {
    /// Before attention.
    pub attention_norm: NormWeights<'g>,
    /// Projections.
    pub attention: MultiHeadWeights<'g>,
    /// Before the feed-forward part.
    pub feed_forward_norm: NormWeights<'g>,
    /// Dense layers.
    pub feed_forward: FeedForwardWeights<'g>,
}
weights!(TransformerLayerWeights { attention_norm, attention, feed_forward_norm, feed_forward });

/// What all layers of a model have in common, made once.
#[derive(Clone, Copy, Default)]
pub struct Around<'a, 'g> {
    /// Mask, bias, dropout of weights and the like.
    pub attention: AttentionOptions<'g>,
    /// Rotary positions of queries and keys.
    pub rotation: Option<Rotation<'g>>,
    /// Attention within a window instead of all positions.
    pub local: Option<LocalAttention>,
    /// Applied to what each part adds; attention's weights are dropped by an option of it.
    pub dropout: Option<&'a dyn Fn(Tensor<'g>) -> Tensor<'g>>,
}

impl std::fmt::Debug for Around<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Around")
            .field("attention", &self.attention)
            .field("rotation", &self.rotation)
            .field("local", &self.local)
            .field("dropout", &self.dropout.is_some())
            .finish()
    }
}

impl<'g> Around<'_, 'g> {
    #[track_caller]
    fn added(&self, x: Tensor<'g>, part: Tensor<'g>) -> Tensor<'g> {
        match self.dropout {
            Some(dropout) => x + dropout(part),
            None => x + part,
        }
    }
}

impl TransformerLayer {
    /// New variables under `{name}/`.
    #[track_caller]
    pub fn weights<'g>(
        &self,
        parameters: &Parameters<'g>,
        name: &str,
    ) -> TransformerLayerWeights<'g> {
        let _layer = parameters.graph().for_layer("transformer_layer");
        let _scope = parameters.scope(name);
        let model = self.attention.model;
        TransformerLayerWeights {
            attention_norm: self.norm.weights(parameters, model, "attention_norm"),
            attention: self.attention.weights(parameters, "attention"),
            feed_forward_norm: self.norm.weights(parameters, model, "feed_forward_norm"),
            feed_forward: self.feed_forward.weights(parameters, "feed_forward"),
        }
    }

    /// All positions of `x` along `length` at once.
    #[track_caller]
    pub fn apply<'g>(
        &self,
        x: Tensor<'g>,
        length: Dimension,
        weights: &TransformerLayerWeights<'g>,
        around: &Around<'_, 'g>,
    ) -> Tensor<'g> {
        let _layer = x.graph().for_layer("transformer_layer");
        let h = self.norm.apply(x, self.attention.model, &weights.attention_norm);
        let (rotation, options) = (around.rotation.as_ref(), &around.attention);
        let weights_here = &weights.attention;
        let part = match &around.local {
            Some(local) => {
                self.attention.local_self_attention(h, local, weights_here, rotation, options)
            }
            None => self.attention.self_attention(h, length, weights_here, rotation, options),
        };
        self.feed_forward(around.added(x, part), weights, around)
    }

    /// One position; see [`MultiHead::decode`], which also says what `around` holds then. A window
    /// is a mask over `memory` here.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::attention::MultiHead;
    /// use mesh_ops::layers::{Around, FeedForward, Norm, Parameters, TransformerLayer};
    /// # let g = mesh_ops::graph();
    /// let (batch, memory, model) = (dim("batch", 2), dim("memory_length", 16), dim("model", 32));
    /// let layer = TransformerLayer {
    ///     norm: Norm::Rms,
    ///     attention: MultiHead::new(model, dim("heads", 4), dim("kv", 8)),
    ///     feed_forward: FeedForward::new(model, dim("hidden", 64)),
    /// };
    /// let (x, position) = (g.input("x", [batch, model], F32), g.input("position", [], I32));
    /// let weights = layer.weights(&Parameters::like(x), "layer");
    /// let cache = layer.attention.empty_cache(&g, &[batch], memory, F32);
    /// let (y, _) = layer.decode(x, position, &cache, memory, &weights, &Around::default());
    /// assert_eq!(y.shape(), x.shape());
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn decode<'g>(
        &self,
        x: Tensor<'g>,
        position: Tensor<'g>,
        cache: &KeyValues<'g>,
        memory: Dimension,
        weights: &TransformerLayerWeights<'g>,
        around: &Around<'_, 'g>,
    ) -> (Tensor<'g>, KeyValues<'g>) {
        let _layer = x.graph().for_layer("transformer_layer");
        let h = self.norm.apply(x, self.attention.model, &weights.attention_norm);
        let (rotation, options) = (around.rotation.as_ref(), &around.attention);
        let (part, cache) = self.attention.decode(
            h,
            position,
            cache,
            memory,
            &weights.attention,
            rotation,
            options,
        );
        (self.feed_forward(around.added(x, part), weights, around), cache)
    }

    #[track_caller]
    fn feed_forward<'g>(
        &self,
        x: Tensor<'g>,
        weights: &TransformerLayerWeights<'g>,
        around: &Around<'_, 'g>,
    ) -> Tensor<'g> {
        let h = self.norm.apply(x, self.attention.model, &weights.feed_forward_norm);
        around.added(x, self.feed_forward.apply(h, &weights.feed_forward))
    }
}
