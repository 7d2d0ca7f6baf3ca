//! Norms, losses, dense layers and attention against JAX, and a layer of a transformer against PyTorch.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::elementwise::logical_and;
use mesh_ops::layers::attention::*;
use mesh_ops::layers::*;
use mesh_ops::metrics::{
    Metric, accuracy, average, perplexity, r2_score, root_mean_square, top_k_accuracy,
};
use mesh_ops::prelude::*;
use mesh_ops::range;

fn norm_weights<'g>(i: &Given<'g>) -> NormWeights<'g> {
    NormWeights { scale: i.x[1], bias: i.x.get(2).copied() }
}

/// A batch norm of the dim `in` with the weights given; the averages are new variables.
fn batch_norm_of<'g>(i: &Given<'g>) -> (BatchNorm, BatchNormWeights<'g>) {
    let norm = BatchNorm::keeping([i.dim("in")]);
    let made = norm.weights(&Parameters::like(i.x[0]), "norm");
    (norm, BatchNormWeights { scale: i.x[1], bias: i.x[2], ..made })
}

fn cross_entropy(i: &Given<'_>, z_loss: f64) -> CrossEntropy {
    CrossEntropy { z_loss, label_smoothing: i.number("label_smoothing") }
}

/// Attention of the first three inputs.
fn attend<'g>(i: &Given<'g>, options: AttentionOptions<'g>) -> Vec<Tensor<'g>> {
    let (memory, kv) = (i.dim(MEMORY_LENGTH), i.dim("kv"));
    vec![dot_product_attention(i.x[0], i.x[1], i.x[2], memory, kv, kv, &options)]
}

fn causally<'g>(i: &Given<'g>) -> AttentionOptions<'g> {
    AttentionOptions { mask: Some(causal(i.graph, i.dim("length"))), ..Default::default() }
}

fn self_attention<'g>(i: &Given<'g>, layer: MultiHead) -> Vec<Tensor<'g>> {
    let [query, key, value, output] = [1, 2, 3, 4].map(|n| i.x[n]);
    let weights = MultiHeadWeights { query, key, value, output };
    vec![layer.self_attention(i.x[0], i.dim("length"), &weights, None, &causally(i))]
}

fn masks<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    let (segment, length) = (i.x[0], i.dim("length"));
    let (query, memory) = (range(i.graph, length, I32), range(i.graph, memory_dim(length), I32));
    let causal = causal_mask(query, memory);
    let same = segment_mask(segment, as_memory(segment, length));
    let added = additive_mask(logical_and(same, causal), i.float);
    vec![causal, window_mask(query, memory, i.size("width")), same, added]
}

fn transformer_layer<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    let [length, model, kv] = ["length", "model", "kv"].map(|name| i.dim(name));
    let layer = TransformerLayer {
        norm: Norm::Layer,
        attention: MultiHead::new(model, i.dim("heads"), kv),
        feed_forward: FeedForward::new(model, i.dim("hidden")).activations([Activation::Swish]),
    };
    let norm = |n: usize| NormWeights { scale: i.x[n], bias: Some(i.x[n + 1]) };
    let dense = |n: usize| DenseWeights { kernel: i.x[n], bias: None };
    let [query, key, value, output] = [5, 6, 7, 8].map(|n| i.x[n]);
    let weights = TransformerLayerWeights {
        attention_norm: norm(1),
        attention: MultiHeadWeights { query, key, value, output },
        feed_forward_norm: norm(3),
        feed_forward: FeedForwardWeights { inputs: vec![dense(9)], output: dense(10) },
    };
    // PyTorch divides by the root of a head's size.
    let scale = Some((kv.size as f64).powf(-0.5));
    let attention = AttentionOptions { scale, ..causally(i) };
    vec![layer.apply(i.x[0], length, &weights, &Around { attention, ..Default::default() })]
}

/// Builders of `torch_layers.json`.
pub(crate) const TORCH: &[Builder] = &[("transformer_layer", transformer_layer)];

/// Builders of `layers.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("layer_norm", |i| vec![Norm::Layer.apply(i.x[0], i.dim("model"), &norm_weights(i))]),
    ("rms_norm", |i| vec![Norm::Rms.apply(i.x[0], i.dim("model"), &norm_weights(i))]),
    ("batch_norm", |i| {
        let (norm, weights) = batch_norm_of(i);
        vec![norm.train(i.x[0], &weights).0]
    }),
    ("dense", |i| {
        let weights = DenseWeights { kernel: i.x[1], bias: Some(i.x[2]) };
        let dense = Dense::onto([i.dim("out")]).activation(Activation::Tanh);
        vec![dense.apply_with(i.x[0], &weights)]
    }),
    ("gated_feed_forward", |i| {
        let weights = |n: usize| DenseWeights { kernel: i.x[n], bias: None };
        let layer = FeedForward::new(i.dim("model"), i.dim("hidden"))
            .activations([Activation::Swish, Activation::Linear]);
        let inputs = vec![weights(1), weights(2)];
        vec![layer.apply(i.x[0], &FeedForwardWeights { inputs, output: weights(3) })]
    }),
    ("softmax_cross_entropy", |i| {
        let options = cross_entropy(i, i.number("z_loss"));
        vec![options.apply(i.x[0], i.x[1], i.dim("classes"))]
    }),
    ("saturated_cross_entropies", |i| {
        let classes = i.dim("classes");
        let hard = softmax_cross_entropy(i.x[0], i.x[1], classes);
        vec![hard, sigmoid_cross_entropy(i.x[0], i.x[1].one_hot(classes, i.float))]
    }),
    ("soft_cross_entropy", |i| vec![cross_entropy(i, 0.0).apply(i.x[0], i.x[1], i.dim("classes"))]),
    ("sigmoid_cross_entropy", |i| vec![sigmoid_cross_entropy(i.x[0], i.x[1])]),
    ("weighted_mean", |i| vec![weighted_mean(i.x[0], i.x[1])]),
    ("empty_weights", |i| vec![weighted_mean(i.x[0], i.x[1])]),
    ("weights_nonzero", |i| vec![weights_nonzero(i.x[0], i.float)]),
    ("metrics_of_numbers", |i| {
        let [x, target, weights] = [0, 1, 2].map(|n| i.x[n].stop_gradient());
        let all = [
            average(squared_error(x, target), Some(weights)),
            root_mean_square(x - target, Some(weights)),
            r2_score(x, target, Some(weights)),
        ];
        all.iter().map(Metric::value).collect()
    }),
    ("metrics_of_logits", |i| {
        let (logits, label, classes) = (i.x[0].stop_gradient(), i.x[1], i.dim("classes"));
        let first = accuracy(logits, label, classes, None).value();
        let found = top_k_accuracy(logits, label, classes, i.size("k"), None).value();
        [first, found].map(|value| value.cast(i.float)).to_vec()
    }),
    ("perplexity", |i| vec![perplexity(i.x[0], Some(i.x[1])).value()]),
    ("masks", masks),
    ("cross_attention", |i| {
        let [query, key, value, output] = [2, 3, 4, 5].map(|n| i.x[n]);
        let weights = MultiHeadWeights { query, key, value, output };
        let layer = MultiHead::new(i.dim("model"), i.dim("heads"), i.dim("kv"));
        let options = AttentionOptions::default();
        vec![layer.cross_attention(i.x[0], i.x[1], i.dim("memory"), &weights, &options)]
    }),
    ("embedding_logits", |i| vec![embedding_logits(i.x[0], i.x[1], i.dim("vocab"))]),
    ("attention", |i| {
        let scale = Some(i.number("scale"));
        attend(i, AttentionOptions { scale, ..Default::default() })
    }),
    ("attention_of_nothing", |i| {
        attend(i, AttentionOptions { mask: Some(padding_mask(i.x[3])), ..Default::default() })
    }),
    ("causal_attention", |i| attend(i, causally(i))),
    ("attention_with_everything", |i| {
        let options = AttentionOptions {
            mask: Some(padding_mask(i.x[5])),
            bias: Some(i.x[3]),
            extra_logit: Some(i.x[4]),
            cap: Some(i.number("cap")),
            ..Default::default()
        };
        attend(i, options)
    }),
    ("multi_query_attention", |i| attend(i, causally(i))),
    ("local_attention", |i| {
        let local = LocalAttention::new(i.dim("length"), i.size("window")).in_blocks_of(2);
        let kv = i.dim("kv");
        vec![local.apply(i.x[0], i.x[1], i.x[2], kv, kv, &AttentionOptions::default())]
    }),
    ("multi_head_self_attention", |i| {
        self_attention(i, MultiHead::new(i.dim("model"), i.dim("heads"), i.dim("kv")))
    }),
    ("multi_query_self_attention", |i| {
        self_attention(i, MultiHead::multi_query(i.dim("model"), i.dim("heads"), i.dim("kv")))
    }),
    ("rotary", |i| {
        let (positions, kv) = (range(i.graph, i.dim("length"), I32), i.dim("kv"));
        vec![Rotation::new(positions, kv, i.number("base")).apply(i.x[0], kv)]
    }),
];
