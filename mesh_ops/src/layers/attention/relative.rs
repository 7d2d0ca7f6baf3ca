//! Relative positions: a learned number per head for each class of distances, added to logits
//! (T5, arXiv 1910.10683).
//!
//! Half of the classes are single distances, the rest grow like powers up to the greatest distance
//! told apart; all beyond share the last one.

use super::mask::positions;
use crate::elementwise::{abs, cast, floor, greater, less, log, maximum, minimum, select};
use crate::layers::Parameters;
use crate::layers::fit::Fit;
use crate::room::*;
use mesh_core::graph::Initializer;

/// Classes of distances and the heads that tell them apart.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Parameters;
/// use mesh_ops::layers::attention::{RelativeBias, memory_dim};
/// # let g = mesh_ops::graph();
/// let (length, heads) = (dim("length", 16), dim("heads", 4));
/// let relative = RelativeBias::looking_back([heads]);
/// let weights = relative.weights(&Parameters::new(&g, F32), "relative");
/// let positions = |dim| mesh_ops::range(&g, dim, I32);
/// let bias = relative.apply(weights, positions(length), positions(memory_dim(length)));
/// assert_eq!(bias.shape().to_string(), "[heads:4, length:16, memory_length:16]");
/// ```
#[derive(Clone, Debug)]
pub struct RelativeBias {
    /// Dims of heads; none if all heads share the numbers.
    pub heads: Vec<Dimension>,
    /// The dim of classes, `buckets:32`.
    pub buckets: Dimension,
    /// Distances from here on are one class; 128.
    pub max_distance: usize,
    /// Half of the classes are for memory after the query; else all of that is distance 0.
    pub bidirectional: bool,
}

impl RelativeBias {
    /// For decoders: queries look at themselves and back.
    pub fn looking_back(heads: impl IntoIterator<Item = Dimension>) -> Self {
        Self {
            heads: heads.into_iter().collect(),
            buckets: Dimension::new("buckets", 32),
            max_distance: 128,
            bidirectional: false,
        }
    }

    /// For encoders: queries look both ways.
    pub fn both_ways(heads: impl IntoIterator<Item = Dimension>) -> Self {
        Self { bidirectional: true, ..Self::looking_back(heads) }
    }

    /// A new variable `{name}/relative_bias` of zeros, one number for each class and head.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> Tensor<'g> {
        let _layer = parameters.graph().for_layer("relative_bias");
        let _scope = parameters.scope(name);
        let dims = std::iter::once(self.buckets).chain(self.heads.iter().copied());
        parameters.variable("relative_bias", dims, Initializer::ZEROS)
    }

    /// The bias of positions (i32) of queries and memory: dims of heads, queries, memory.
    #[track_caller]
    pub fn apply<'g>(
        &self,
        weights: Tensor<'g>,
        query: Tensor<'g>,
        memory: Tensor<'g>,
    ) -> Tensor<'g> {
        let _layer = query.graph().for_layer("relative_bias");
        let numbers = Shape::new(std::iter::once(self.buckets).chain(self.heads.iter().copied()));
        let fit = positions(query, memory).floats("weights", weights);
        let fit = fit.exactly("weights", weights, &numbers.unwrap_or_default());
        if let Some(poisoned) = fit.refused("relative_bias", query) {
            return poisoned;
        }
        let bucket = self.bucket(memory - query);
        if bucket.is_poisoned() {
            return bucket;
        }
        let (of_query, of_memory) = (query.shape(), memory.shape());
        let mut dims = self.heads.clone();
        for dim in of_query.iter().chain(of_memory.iter()) {
            if !dims.contains(&dim) {
                dims.push(dim);
            }
        }
        crate::transpose(crate::gather(weights, bucket, self.buckets), dims)
    }

    /// The class of `relative`, the memory's position less the query's (i32).
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::attention::RelativeBias;
    /// # let g = mesh_ops::graph();
    /// let relative = g.input("relative", [dim("length", 4)], I32);
    /// assert_eq!(RelativeBias::both_ways([]).bucket(relative).shape(), relative.shape());
    /// ```
    #[track_caller]
    pub fn bucket<'g>(&self, relative: Tensor<'g>) -> Tensor<'g> {
        let _layer = relative.graph().for_layer("relative_bias");
        if let Some(poisoned) =
            Fit::new().integers("distances", relative).refused("relative_bias", relative)
        {
            return poisoned;
        }
        let _caller = relative.graph().for_caller();
        let number = |n: usize| relative.scalar_like(n as f64);
        let zero = number(0);
        let sides = if self.bidirectional { 2 } else { 1 };
        let count = self.buckets.size / sides;
        let exact = count / 2;
        if exact == 0 || self.max_distance <= exact {
            let message = format!(
                "{} classes of distances up to {} cannot be told apart: use 4 or more classes, and \
                 a greatest distance beyond {exact}",
                self.buckets.size, self.max_distance
            );
            relative.graph().record("relative_bias", message);
            return relative.poisoned();
        }
        let distance = match self.bidirectional {
            true => abs(relative),
            false => maximum(-relative, zero),
        };
        // Distances that are powers lie on borders of classes; rounding must not push them back.
        const NUDGE: f64 = 1e-5;
        let per_logarithm = (count - exact) as f64 / (self.max_distance as f64 / exact as f64).ln();
        let wide = cast(maximum(distance, number(1)), DType::F32) * (1.0 / exact as f64);
        let steps = cast(floor(log(wide) * per_logarithm + NUDGE), DType::I32);
        let far = minimum(steps + number(exact), number(count - 1));
        let bucket = select(less(distance, number(exact)), distance, far);
        if self.bidirectional {
            bucket + select(greater(relative, zero), number(count), zero)
        } else {
            bucket
        }
    }
}
