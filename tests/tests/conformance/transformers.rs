//! Layers with attention under the legal layouts, against the reference.

use crate::attention::{LENGTH, dims, heads, no_options};
use crate::conform;
use crate::layers::{AXIS, GRIDS, weights};
use crate::meanings::{self, Heads};
use mesh_ops::layers::attention::*;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{self, At, Case};

#[test]
fn positions() {
    let [length, of_heads, kv, _] = dims();
    conform(
        "positions",
        vec![
            Case::new("rotary", move |g, x| {
                let positions = mesh_ops::range(g, length, I32);
                Rotation::apply(&Rotation::new(positions, kv, 10.0), x[0], kv)
            })
            .computes(|x, ty| {
                testing::Dense::each(ty, |at| meanings::turned(x[0], at, at.along("length")))
            })
            .normal("x", "b:2;length:4;kv:4", F32)
            .meshes(GRIDS),
            Case::new("relative bias", move |g, x| {
                let relative = RelativeBias {
                    buckets: dim("buckets", 4),
                    max_distance: 4,
                    ..RelativeBias::looking_back([of_heads])
                };
                let positions = |dim| mesh_ops::range(g, dim, I32);
                let (query, memory) = (positions(length), positions(memory_dim(length)));
                RelativeBias::apply(&relative, x[0], query, memory)
            })
            .computes(meanings::relative_bias)
            .exact()
            .integers("w", "buckets:4;heads:2", F32)
            .meshes(GRIDS),
        ],
    );
}

#[test]
fn local_attention() {
    let [_, _, kv, _] = dims();
    let length = dim("length", 8);
    let case = |name: &str, window: usize, block: Option<usize>| {
        let local = LocalAttention::new(length, window);
        let local = block.map_or(local, |block| local.in_blocks_of(block));
        Case::new(name, move |_, x| {
            LocalAttention::apply(&local, x[0], x[1], x[2], kv, kv, &no_options())
        })
        .computes(meanings::local(&[("length", 8)], move |from, to| {
            let (from, to) = (from.along("length"), to.along("length"));
            to <= from && from < to + window
        }))
        .normal("q", "b:2;length:8;kv:4", F32)
        .normal("k", "b:2;length:8;kv:4", F32)
        .normal("v", "b:2;length:8;kv:4", F32)
    };
    conform(
        "local_attention",
        vec![
            case("a window within a block", 2, Some(4)).meshes(GRIDS),
            case("a window over several blocks", 5, Some(2)).meshes(&["m:2", "m:4"]),
            case("one block", 3, None).meshes(AXIS),
        ],
    );
}

#[test]
fn attention_to_less() {
    let [_, _, kv, _] = dims();
    let (length, height, width) = (dim("length", 8), dim("height", 4), dim("width", 4));
    let of = |case: Case, shape: &str| {
        ["q", "k", "v"].into_iter().fold(case, |case, name| case.normal(name, shape, F32))
    };
    let local = LocalAttention2d::new([height, width], [1, 1]).in_blocks_of([2, 2]);
    let in_2d = |name: &str, local: LocalAttention2d, raster: bool| {
        let case = Case::new(name, move |_, x| {
            LocalAttention2d::apply(&local, x[0], x[1], x[2], kv, kv, &no_options())
        })
        .computes(meanings::local(&[("height", 4), ("width", 4)], move |from, to| {
            let near = |dim| from.along(dim).abs_diff(to.along(dim)) <= 1;
            let number = |at: &At| 4 * at.along("height") + at.along("width");
            near("height") && near("width") && (!raster || number(to) <= number(from))
        }));
        of(case, "height:4;width:4;kv:4")
    };
    let compressed = |name: &str, memory: CompressedMemory, back: bool| {
        let case = Case::new(name, move |_, x| {
            CompressedMemory::apply(&memory, x[0], x[1], x[2], kv, kv, &no_options())
        })
        .computes(meanings::compressed(back));
        of(case, "b:2;length:8;kv:4").meshes(&["m:2"])
    };
    let memory = CompressedMemory::new(length, 2);
    conform(
        "attention_to_less",
        vec![
            in_2d("2-D, both ways", local, false).meshes(&["m:2"]),
            in_2d("2-D, raster order", local.in_raster_order(), true).meshes(&["m:2"]),
            compressed("compressed", memory, false),
            compressed("compressed, looking back", memory.looking_back(), true),
        ],
    );
}

/// A causal pass, position by position.
fn decoded<'g>(g: &'g Graph, x: &[Tensor<'g>], attention: &MultiHead) -> Tensor<'g> {
    let [length, _, _, _] = dims();
    let memory = memory_dim(length);
    let batch = dim("b", 2);
    let mut cache = attention.empty_cache(g, &[batch], memory, F32);
    let mut all = Vec::new();
    for at in 0..LENGTH {
        let position = g.scalar(at as f64, I32);
        let rotation = Rotation::new(position, attention.kv, 10.0);
        let here = x[0].slice(length.resized(1), at).sum([length.resized(1)]);
        let (y, next) = MultiHead::decode(
            attention,
            here,
            position,
            &cache,
            memory,
            &heads(x),
            Some(&rotation),
            &no_options(),
        );
        cache = next;
        all.push(y.reshape([batch, length.resized(1), attention.model]));
    }
    all[0].concat(&all[1..], "length")
}

#[test]
fn decoding() {
    let [_, of_heads, kv, model] = dims();
    let attention = MultiHead::grouped(model, dim("groups", 2), of_heads, kv);
    conform(
        "decoding",
        vec![
            Case::new("decode", move |g, x| decoded(g, x, &attention))
                .computes(|x, ty| Heads::DECODED.of(x[0], x[0], &x[1..], ty))
                .without_gradient()
                .normal("x", "b:2;length:4;model:6", F32)
                .normal("wq", "model:6;groups:2;heads:2;kv:4", F32)
                .normal("wk", "model:6;groups:2;kv:4", F32)
                .normal("wv", "model:6;groups:2;kv:4", F32)
                .normal("wo", "groups:2;heads:2;kv:4;model:6", F32)
                .meshes(AXIS),
        ],
    );
}

#[test]
fn transformer_layers() {
    let [length, of_heads, kv, model] = dims();
    conform(
        "transformer_layers",
        vec![
            Case::new("layer", move |g, x| {
                let layer = TransformerLayer {
                    norm: Norm::Rms,
                    attention: MultiHead::new(model, of_heads, kv),
                    feed_forward: FeedForward::new(model, dim("hidden", 4))
                        .activations([Activation::Tanh]),
                };
                fn half(x: Tensor<'_>) -> Tensor<'_> {
                    x * 0.5
                }
                let norm = |scale| NormWeights { scale, bias: None };
                let weights = TransformerLayerWeights {
                    attention_norm: norm(x[5]),
                    attention: heads(x),
                    feed_forward_norm: norm(x[6]),
                    feed_forward: FeedForwardWeights {
                        inputs: vec![self::weights(x[7], None)],
                        output: self::weights(x[8], None),
                    },
                };
                let mask = Some(additive_mask(causal(g, length), F32));
                let around = Around {
                    attention: AttentionOptions { mask, ..no_options() },
                    dropout: Some(&half),
                    ..Around::default()
                };
                TransformerLayer::apply(&layer, x[0], length, &weights, &around)
            })
            .computes(meanings::transformer_layer)
            .normal("x", "b:2;length:4;model:6", F32)
            .normal("wq", "model:6;heads:2;kv:4", F32)
            .normal("wk", "model:6;heads:2;kv:4", F32)
            .normal("wv", "model:6;heads:2;kv:4", F32)
            .normal("wo", "heads:2;kv:4;model:6", F32)
            .normal("scale1", "model:6", F32)
            .normal("scale2", "model:6", F32)
            .normal("wi", "model:6;hidden:4", F32)
            .normal("wout", "hidden:4;model:6", F32)
            .meshes(AXIS),
        ],
    );
}
