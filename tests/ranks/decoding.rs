//! Decoding: sequences at different positions, a cache in variables.

use mesh_ops::layers::Parameters;
use mesh_ops::layers::attention::{AttentionOptions, MultiHead};
use mesh_ops::prelude::*;

/// Each call of `train` makes one position more of every sequence.
pub fn build(graph: &Graph) {
    let (batch, memory, model) = (dim("batch", 4), dim("memory_length", 16), dim("model", 8));
    let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 4));
    let x = graph.input("image", [batch, model], F32);
    let calls = graph.state("calls", [], I32, Initializer::ZEROS);
    let position = calls.value() + 3.0 * mesh_ops::range(graph, batch, I32);
    let weights = attention.weights(&Parameters::like(x), "attention");
    let kept = attention.cache_variables(graph, &[batch], memory, F32, "cache");
    let options = AttentionOptions::default();
    let (y, cache) = attention.decode(x, position, &kept.value(), memory, &weights, None, &options);
    let updates = [calls.assign(calls.value() + 1.0)].into_iter().chain(kept.assign(&cache));
    graph.function("train", [x], [y], updates);
}
