//! One graph for each layer of `mesh_ops`.

mod losses;

use super::{Entry, case, f32s, input, made};
use mesh_ops::AssociativeScan;
use mesh_ops::conv::Conv;
use mesh_ops::layers::attention::*;
use mesh_ops::layers::moe::{Gating, HierarchicalMixture, MixtureOfExperts};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

/// `length`, `heads`, `kv`, `model`.
fn dims() -> [Dimension; 4] {
    [dim("length", 4), dim("heads", 2), dim("kv", 4), dim("model", 6)]
}

fn batch() -> Dimension {
    dim("b", 2)
}

/// A layer of one tensor.
fn of_x(
    name: &str,
    proof: &str,
    shape: &'static str,
    build: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + 'static,
) -> Entry {
    case(name, proof, move |g| {
        let x = f32s(g, "x", shape);
        made([x], [build(x)])
    })
}

/// A layer of two tensors of floats.
fn of_two(
    name: &str,
    proof: &str,
    shapes: [&'static str; 2],
    build: impl for<'g> Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g> + 'static,
) -> Entry {
    case(name, proof, move |g| {
        let (x, y) = (f32s(g, "x", shapes[0]), f32s(g, "y", shapes[1]));
        made([x, y], [build(x, y)])
    })
}

pub fn all() -> Vec<Entry> {
    let mut all = dense();
    all.extend(norms_and_losses());
    all.extend(losses::all());
    all.extend(embeddings_and_convolutions());
    all.extend(masks());
    all.extend(attention());
    all.extend(blocks());
    all
}

fn dense() -> Vec<Entry> {
    let k = || dim("k", 6);
    vec![
        of_x("dense", "dense", "b:4;i:4", move |x| x.dense(k(), "d")),
        of_x("Dense", "experts in the input", "b:4;e:2;i:4", move |x| {
            Dense::onto([k()]).over([dim("i", 4)]).for_each([dim("e", 2)]).apply(x, "d")
        }),
        of_x("dense_product", "dense_product", "b:4;i:4", move |x| {
            let gates = [Activation::Sigmoid, Activation::Linear];
            dense_product(x, &Dense::onto([k()]), &gates, "d")
        }),
        of_x("dense_relu_dense", "dense_relu_dense", "b:4;i:4", move |x| {
            dense_relu_dense(x, k(), "d")
        }),
        of_x("FeedForward", "gated feed-forward", "b:4;i:4", move |x| {
            let layer = FeedForward::new(dim("i", 4), k());
            layer.apply(x, &layer.weights(&Parameters::like(x), "d"))
        }),
        case("Parameters", "new variable", move |g| {
            made(
                [],
                [Parameters::new(g, F32).variable("w", [dim("i", 4), k()], Initializer::ZEROS)],
            )
        }),
        of_x(
            "clip_activation_gradient",
            "loops/recompute.rs::clipped_activation_gradients",
            "b:4;i:4",
            |x| clip_activation_gradient(x, 1.0),
        ),
        of_x("Activation", "activations", "b:4;i:4", |x| Activation::Gelu.apply(x)),
    ]
}

fn norms_and_losses() -> Vec<Entry> {
    let classes = || dim("classes", 6);
    let k = || dim("k", 6);
    const LOGITS: &str = "p:4;classes:6";
    vec![
        of_x("softmax", "softmax", LOGITS, move |x| x.softmax(classes())),
        of_x("log_softmax", "log_softmax", LOGITS, move |x| x.log_softmax(classes())),
        of_x("logsumexp", "logsumexp", LOGITS, move |x| x.logsumexp(classes())),
        of_two("softmax_with", "softmax_with an extra logit", [LOGITS, "p:4"], move |x, extra| {
            softmax_with(x, classes(), Some(extra))
        }),
        of_two("log_softmax_with", "log_softmax, extra", [LOGITS, "p:4"], move |x, extra| {
            log_softmax_with(x, classes(), Some(extra))
        }),
        of_two("logsumexp_with", "logsumexp, extra", [LOGITS, "p:4"], move |x, extra| {
            logsumexp_with(x, [classes()], Some(extra))
        }),
        case("softmax_cross_entropy", "cross entropy", move |g| {
            let (x, label) = (f32s(g, "x", LOGITS), input(g, "label", "p:4", I32));
            made([x, label], [x.softmax_cross_entropy(label, classes())])
        }),
        of_two("CrossEntropy", "cross entropy with options: soft", [LOGITS; 2], move |x, soft| {
            CrossEntropy { z_loss: 0.25, label_smoothing: 0.125 }.apply(x, soft, classes())
        }),
        of_two("sigmoid_cross_entropy", "sigmoid_cross_entropy", ["p:4"; 2], |x, target| {
            sigmoid_cross_entropy(x, target)
        }),
        of_two("weighted_mean", "weighted_mean", ["p:4"; 2], |x, w| weighted_mean(x, w)),
        case("weights_nonzero", "weights_nonzero", |g| {
            let target = input(g, "target", "p:4", I32);
            made([target], [weights_nonzero(target, F32)])
        }),
        of_x("layer_norm", "layer_norm: new weights", "b:4;k:6", move |x| layer_norm(x, k(), "n")),
        of_x("rms_norm", "rms_norm: new weights", "b:4;k:6", move |x| rms_norm(x, k(), "n")),
        of_x("Norm", "rms_norm: bf16", "b:4;k:6", move |x| {
            Norm::Rms.apply(x, k(), &Norm::Rms.weights(&Parameters::like(x), k(), "n"))
        }),
        of_x("batch_norm", "batch_norm: new weights", "b:4;k:6", move |x| {
            batch_norm(x, [k()], "n").0
        }),
        of_x("group_norm", "group_norm: new weights", "b:4;h:4;k:6", move |x| {
            group_norm(x, k(), 2, [dim("h", 4)], "n")
        }),
        of_x("instance_norm", "instance_norm: new weights", "b:4;h:4;k:6", move |x| {
            instance_norm(x, k(), [dim("h", 4)], "n")
        }),
        of_x("GroupNorm", "group_norm", "b:4;h:4;k:6", move |x| {
            let norm = GroupNorm::new(k(), 2).over([dim("h", 4)]);
            norm.apply(x, &norm.weights(&Parameters::like(x), "n"))
        }),
        of_x("LocalResponseNorm", "local_response_norm", "b:4;k:6", move |x| {
            LocalResponseNorm::of(3).apply(x, k())
        }),
        of_x("BatchNorm", "batch_norm: evaluated", "b:4;k:6", move |x| {
            let norm = BatchNorm::keeping([k()]);
            norm.evaluate(x, &norm.weights(&Parameters::like(x), "n"))
        }),
    ]
}

fn embeddings_and_convolutions() -> Vec<Entry> {
    let vocab = || dim("vocab", 6);
    let model = || dim("model", 4);
    let time = || Conv::over([("time", "tap")]);
    const SIGNAL: &str = "b:2;time:8;c:2";
    vec![
        case("embedding", "embedding", move |g| {
            let ids = input(g, "ids", "p:4", I32);
            made([ids], [embedding(ids, vocab(), [model()], "e")])
        }),
        case("embedding_weights", "embedding_weights", move |g| {
            made([], [embedding_weights(&Parameters::new(g, F32), vocab(), [model()], "e")])
        }),
        case("embed", "embed", move |g| {
            let (ids, table) = (input(g, "ids", "p:4", I32), f32s(g, "table", "vocab:6;model:4"));
            made([ids, table], [embed(ids, table, vocab())])
        }),
        of_two(
            "embedding_logits",
            "embedding_logits",
            ["p:4;model:4", "vocab:6;model:4"],
            move |x, table| embedding_logits(x, table, vocab()),
        ),
        of_x("conv_layer", "conv_layer", SIGNAL, move |x| {
            conv_layer(x, &time(), [2], dim("o", 4), "c")
        }),
        of_x("separable_conv_layer", "separable_conv_layer", SIGNAL, move |x| {
            separable_conv_layer(x, &time(), [2], dim("o", 4), "c")
        }),
        of_x("ConvLayer", "conv_layer: no bias", SIGNAL, move |x| {
            ConvLayer::onto(dim("o", 4), &time(), [2]).without_bias().apply(x, "c")
        }),
    ]
}

fn masks() -> Vec<Entry> {
    let pair = |name: &str, proof: &str, mask: for<'g> fn([Tensor<'g>; 2]) -> Tensor<'g>| {
        case(name, proof, move |g| {
            let (query, memory) =
                (input(g, "query", "length:4", I32), input(g, "memory", "memory_length:4", I32));
            made([query, memory], [mask([query, memory])])
        })
    };
    vec![
        case("causal", "multi-head", |g| made([], [causal(g, dims()[0])])),
        pair("causal_mask", "causal_mask", |[q, m]| causal_mask(q, m)),
        pair("window_mask", "window_mask", |[q, m]| window_mask(q, m, 2)),
        pair("segment_mask", "segment_mask", |[q, m]| segment_mask(q, m)),
        case("padding_mask", "padding_mask", |g| {
            let memory = input(g, "memory", "memory_length:4", I32);
            made([memory], [padding_mask(memory)])
        }),
        case("additive_mask", "layer", |g| {
            let mask = input(g, "mask", "length:4;memory_length:4", Bool);
            made([mask], [additive_mask(mask, F32)])
        }),
    ]
}

fn attention() -> Vec<Entry> {
    let [length, heads, kv, model] = dims();
    let many = move || MultiHead::new(model, heads, kv);
    const X: &str = "b:2;length:4;model:6";
    fn none<'g>() -> AttentionOptions<'g> {
        AttentionOptions::default()
    }
    fn weights<'g>(x: Tensor<'g>) -> MultiHeadWeights<'g> {
        let [_, heads, kv, model] = dims();
        MultiHead::new(model, heads, kv).weights(&Parameters::like(x), "a")
    }
    vec![
        of_x("as_memory", "as_memory", X, move |x| as_memory(x, length)),
        case("dot_product_attention", "attention", move |g| {
            let q = f32s(g, "q", "b:2;length:4;heads:2;kv:4");
            let [k, v] = ["k", "v"].map(|name| f32s(g, name, "b:2;memory_length:4;heads:2;kv:4"));
            let memory = memory_dim(length);
            made([q, k, v], [dot_product_attention(q, k, v, memory, kv, kv, &none())])
        }),
        of_x("MultiHead::self_attention", "multi-head", X, move |x| {
            many().self_attention(x, length, &weights(x), None, &none())
        }),
        of_two(
            "MultiHead::cross_attention",
            "cross attention",
            [X, "b:2;source:2;model:6"],
            move |x, at| many().cross_attention(x, at, dim("source", 2), &weights(x), &none()),
        ),
        case("BeamSearch::search", "beam_search", |g| {
            let (first, bias) = (input(g, "first", "b:2", I32), f32s(g, "bias", "vocab:4"));
            let (beam, length, vocab) = (dim("beam", 2), dim("length", 3), dim("vocab", 4));
            let (tokens, scores) =
                BeamSearch::new(beam, length, vocab, 1)
                    .search(first, &[], |last, _, _| (last.one_hot(vocab, F32) + bias, vec![]));
            made([first, bias], [tokens, scores])
        }),
        case("MultiHead::decode", "decode", move |g| {
            let (x, position) = (f32s(g, "x", "b:2;model:6"), input(g, "position", "", I32));
            let memory = memory_dim(length);
            let cache = many().empty_cache(g, &[batch()], memory, F32);
            let (weights, options) = (weights(x), none());
            let (y, _) = many().decode(x, position, &cache, memory, &weights, None, &options);
            made([x, position], [y])
        }),
        case("LocalAttention", "a window within a block", move |g| {
            let [q, k, v] = ["q", "k", "v"].map(|name| f32s(g, name, "b:2;length:8;kv:4"));
            let local = LocalAttention::new(dim("length", 8), 3).in_blocks_of(4);
            made([q, k, v], [local.apply(q, k, v, kv, kv, &none())])
        }),
        case("LocalAttention2d", "2-D, both ways", move |g| {
            let [q, k, v] = ["q", "k", "v"].map(|name| f32s(g, name, "b:2;height:4;width:4;kv:2"));
            let local = LocalAttention2d::new([dim("height", 4), dim("width", 4)], [1, 1]);
            let local = local.in_blocks_of([2, 2]);
            let kv = dim("kv", 2);
            made([q, k, v], [local.apply(q, k, v, kv, kv, &none())])
        }),
        case("CompressedMemory", "compressed, looking back", move |g| {
            let [q, k, v] = ["q", "k", "v"].map(|name| f32s(g, name, "b:2;length:8;kv:4"));
            let memory = CompressedMemory::new(dim("length", 8), 2).looking_back();
            made([q, k, v], [memory.apply(q, k, v, kv, kv, &none())])
        }),
        of_x("TalkingHeads", "talking heads: new weights", X, move |x| {
            let softmax_heads = dim("softmax_heads", 4);
            let talking = TalkingHeads::new(&Parameters::like(x), heads, softmax_heads, "t");
            let options = AttentionOptions { talking: Some(talking), ..none() };
            many().self_attention(x, length, &weights(x), None, &options)
        }),
        of_x("Rotation", "rotary", "b:2;length:4;kv:4", move |x| {
            Rotation::new(mesh_ops::range(x.graph(), length, I32), kv, 10.0).apply(x, kv)
        }),
        case("RelativeBias", "relative bias", move |g| {
            let bias = RelativeBias::looking_back([heads]);
            let weights = bias.weights(&Parameters::new(g, F32), "r");
            let positions = |dim| mesh_ops::range(g, dim, I32);
            made([], [bias.apply(weights, positions(length), positions(memory_dim(length)))])
        }),
    ]
}

fn blocks() -> Vec<Entry> {
    let [length, heads, kv, model] = dims();
    vec![
        of_x("TransformerLayer", "layer", "b:2;length:4;model:6", move |x| {
            let layer = TransformerLayer {
                norm: Norm::Rms,
                attention: MultiHead::new(model, heads, kv),
                feed_forward: FeedForward::new(model, dim("hidden", 4)),
            };
            let weights = layer.weights(&Parameters::like(x), "t");
            layer.apply(x, length, &weights, &Around::default())
        }),
        of_x("Recurrent", "lstm, lengths", "b:4;time:4;input:6", |x| {
            let (time, input, state) = (dim("time", 4), dim("input", 6), dim("state", 4));
            let lstm = Recurrent::new(Cell::Lstm, time, input, state);
            lstm.apply(x, &lstm.weights(&Parameters::like(x), "r"), None, None).0
        }),
        of_x("Mamba", "mamba", "b:4;time:4;model:6", |x| {
            let (time, model, inner) = (dim("time", 4), dim("model", 6), dim("inner", 4));
            let block = Mamba::new(time, model, inner, dim("state", 2));
            block.apply(x, &block.weights(&Parameters::like(x), "m"))
        }),
        case("selective_scan", "selective_scan", |g| {
            let [x, delta] = ["x", "delta"].map(|name| f32s(g, name, "b:4;time:4;channels:2"));
            let a = f32s(g, "a", "channels:2;state:2");
            let [b, c] = ["b", "c"].map(|name| f32s(g, name, "b:4;time:4;state:2"));
            let how = AssociativeScan::default();
            made([x, delta, a, b, c], [selective_scan(x, delta, a, b, c, dim("time", 4), how)])
        }),
        case("MixtureOfExperts", "switch", |g| {
            let (batch, length, model) = (dim("batch", 2), dim("length", 4), dim("model", 2));
            let x = f32s(g, "x", "batch:2;length:4;model:2");
            let (hidden, experts) = (dim("hidden", 4), dim("experts", 2));
            let mixture = MixtureOfExperts::new(model, hidden, experts, Gating::Switch);
            let weights = mixture.weights(&Parameters::like(x), "m");
            let (y, losses) = mixture.apply(x, &[batch, length], &weights, None);
            made([x], [y, losses.balance, losses.z])
        }),
        case("HierarchicalMixture", "hierarchical", |g| {
            let (batch, length, model) = (dim("batch", 2), dim("length", 4), dim("model", 2));
            let x = f32s(g, "x", "batch:2;length:4;model:2");
            let experts = [dim("outer", 2), dim("inner", 2)];
            let mixture =
                HierarchicalMixture::new(model, dim("hidden", 4), experts, Gating::Switch);
            let weights = mixture.weights(&Parameters::like(x), "m");
            made([x], [mixture.apply(x, &[batch, length], &weights, None).0])
        }),
    ]
}
