//! Decoding one position at a time: keys and values of earlier positions are kept.
//!
//! The numbers are those of a causal full pass, position by position. A cache is a pair of tensors
//! over a dim of positions, filled from 0 on; between calls it lives in two variables, or a loop
//! carries it. A new position is put in its row ([`update_at`](crate::update_at)), and attention looks at what
//! is filled ([`einsum_filled`](crate::einsum_filled)): neither costs more where there is room for more.
//! Under a layout that splits the cache along its positions each processor looks at its own, and what they
//! find is merged: their greatest score, the sum of exponentials, and the weighted values.

use super::mask::fit_mask;
use super::{AttentionOptions, KeyValues, MultiHead, MultiHeadWeights, Rotation};
use crate::layers::fit::Fit;
use crate::room::*;
use mesh_core::graph::{Graph, Initializer, Update, Variable};

/// A cache that outlives a call.
#[derive(Clone, Copy, Debug)]
pub struct CacheVariables<'g> {
    key: Variable<'g>,
    value: Variable<'g>,
}

impl<'g> CacheVariables<'g> {
    /// What it holds as the call starts.
    #[track_caller]
    pub fn value(&self) -> KeyValues<'g> {
        KeyValues { key: self.key.value(), value: self.value.value() }
    }

    /// What it shall hold when the call ends.
    #[track_caller]
    pub fn assign(&self, cache: &KeyValues<'g>) -> [Update<'g>; 2] {
        [self.key.assign(cache.key), self.value.assign(cache.value)]
    }
}

impl MultiHead {
    /// Dims of a cache: `batch`, heads of keys and values, positions, kv. What a head has lies side by
    /// side, so that its filled part is looked at where it lies.
    fn cache_dims(&self, batch: &[Dimension], memory: Dimension) -> Vec<Dimension> {
        let heads = self.memory_heads();
        batch.iter().copied().chain(heads).chain([memory, self.kv]).collect()
    }

    /// An empty cache for the positions of `memory`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::attention::MultiHead;
    /// # let g = mesh_ops::graph();
    /// let attention = MultiHead::multi_query(dim("model", 32), dim("heads", 4), dim("kv", 8));
    /// let cache = attention.empty_cache(&g, &[dim("batch", 2)], dim("memory_length", 16), F32);
    /// assert_eq!(cache.key.shape().to_string(), "[batch:2, memory_length:16, kv:8]");
    /// ```
    #[track_caller]
    pub fn empty_cache<'g>(
        &self,
        graph: &'g Graph,
        batch: &[Dimension],
        memory: Dimension,
        dtype: DType,
    ) -> KeyValues<'g> {
        let zeros = graph.fill(0.0, self.cache_dims(batch, memory), dtype);
        KeyValues { key: zeros, value: zeros }
    }

    /// New variables `{name}/key` and `{name}/value` that hold an empty cache.
    #[track_caller]
    pub fn cache_variables<'g>(
        &self,
        graph: &'g Graph,
        batch: &[Dimension],
        memory: Dimension,
        dtype: DType,
        name: &str,
    ) -> CacheVariables<'g> {
        let _scope = graph.scope(name);
        let dims = self.cache_dims(batch, memory);
        let zeros = Initializer::ZEROS;
        CacheVariables {
            key: graph.state("key", dims.iter().copied(), dtype, zeros),
            value: graph.state("value", dims, dtype, zeros),
        }
    }

    /// One position: `x` without a dim of positions, at `position` (i32, without dims, or with
    /// dims of the batch where sequences stand at different positions). It attends to the
    /// positions of the cache up to its own. The result, and the cache with this position in it.
    ///
    /// `rotation` is that of `position`; `options` has masks and biases over `memory` without the
    /// later positions, which are left out here. A position beyond the cache is lost.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::Parameters;
    /// use mesh_ops::layers::attention::{AttentionOptions, MultiHead};
    /// # let g = mesh_ops::graph();
    /// let (batch, memory, model) = (dim("batch", 2), dim("memory_length", 16), dim("model", 32));
    /// let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 8));
    /// let (x, position) = (g.input("x", [batch, model], F32), g.input("position", [], I32));
    /// let weights = attention.weights(&Parameters::like(x), "attention");
    /// let kept = attention.cache_variables(&g, &[batch], memory, F32, "cache");
    /// let options = AttentionOptions::default();
    /// let (y, cache) =
    ///     attention.decode(x, position, &kept.value(), memory, &weights, None, &options);
    /// g.function("next", [x, position], [y], kept.assign(&cache));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::too_many_arguments, reason = "each is a tensor of its own kind")]
    #[track_caller]
    pub fn decode<'g>(
        &self,
        x: Tensor<'g>,
        position: Tensor<'g>,
        cache: &KeyValues<'g>,
        memory: Dimension,
        weights: &MultiHeadWeights<'g>,
        rotation: Option<&Rotation<'g>>,
        options: &AttentionOptions<'g>,
    ) -> (Tensor<'g>, KeyValues<'g>) {
        let _layer = x.graph().for_layer("decode");
        let nothing = |poisoned| (poisoned, KeyValues { key: poisoned, value: poisoned });
        if let Some(poisoned) = self.fit(x, position, memory, options).refused("decode", x) {
            return nothing(poisoned);
        }
        let q = self.queries(x, weights, rotation);
        let new = self.keys_values(x, weights, rotation);
        if let Some(poisoned) = fit_cache(&new, cache, memory).refused("decode", x) {
            return nothing(poisoned);
        }
        let cache = KeyValues {
            key: crate::update_at(cache.key, memory, position, new.key),
            value: crate::update_at(cache.value, memory, position, new.value),
        };
        let options = AttentionOptions { filled: Some(position + 1.0), ..*options };
        (self.attend(q, &cache, memory, weights, &options), cache)
    }

    /// What decoding demands of its tensors, weights and cache aside.
    fn fit<'g>(
        &self,
        x: Tensor<'g>,
        position: Tensor<'g>,
        memory: Dimension,
        options: &AttentionOptions<'g>,
    ) -> Fit {
        let around = x.shape().without(&[self.model.name]);
        let fit = Fit::new().floats("the input", x).integers("the position", position);
        let fit = fit.among("the position", position, &around);
        let queries = Shape::new(around.iter().chain(self.heads())).unwrap_or_default();
        let logits = Shape::new(options.in_softmax(&queries).iter().chain([memory]));
        match options.mask {
            Some(mask) => fit_mask(fit, mask, &logits.unwrap_or_default()),
            None => fit,
        }
    }
}

/// A cache has the dims of what is put into it, and the memory's.
fn fit_cache<'g>(new: &KeyValues<'g>, cache: &KeyValues<'g>, memory: Dimension) -> Fit {
    let pairs = [(new.key, cache.key), (new.value, cache.value)];
    pairs.into_iter().fold(Fit::new(), |fit, (new, kept)| {
        let legal = Shape::new(new.shape().iter().chain([memory])).unwrap_or_default();
        fit.and(new, || None).exactly("the cache", kept, &legal)
    })
}
