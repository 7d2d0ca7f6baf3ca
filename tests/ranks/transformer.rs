//! A decoder-only transformer of two layers, trained with Adam.

use mesh_ops::layers::attention::{AttentionOptions, MultiHead, additive_mask, causal};
use mesh_ops::layers::{
    Around, Dense, FeedForward, Norm, Parameters, TransformerLayer, embed, embedding_weights,
};
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer};

pub fn build(graph: &Graph) {
    with_rate(graph, 3e-3);
}

pub fn with_rate(graph: &Graph, rate: f64) {
    let (batch, length, vocab) = (dim("batch", 4), dim("length", 6), dim("vocab", 8));
    let (width, heads, kv) = (dim("d_model", 8), dim("heads", 2), dim("kv", 4));
    let layer = TransformerLayer {
        norm: Norm::Rms,
        attention: MultiHead::new(width, heads, kv),
        feed_forward: FeedForward::new(width, dim("d_ff", 16)),
    };
    let parameters = Parameters::new(graph, F32);
    let (bytes, following) =
        (graph.input("bytes", [batch, length], I32), graph.input("next", [batch, length], I32));
    let mask = Some(additive_mask(causal(graph, length), F32));
    let attention = AttentionOptions { mask, ..Default::default() };
    let around = Around { attention, ..Default::default() };
    let mut x = embed(bytes, embedding_weights(&parameters, vocab, [width], "bytes"), vocab);
    for i in 0..2 {
        let weights = layer.weights(&parameters, &format!("layer{i}"));
        x = layer.apply(x, length, &weights, &around);
    }
    let logits = Dense::onto([vocab]).over([width]).apply(x, "output");
    let losses = logits.softmax_cross_entropy(following, vocab);
    let (loss, each) = (losses.mean(), losses.mean_over([length]));
    let updates = AdamWeightDecay::new(rate).minimize(loss);
    graph.function("train", [bytes, following], [loss, each], updates);
}
