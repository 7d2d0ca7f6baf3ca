//! Layers under the legal layouts, against the reference.

use crate::conform;
use crate::meanings::{self, Attention, Heads, line, where_seen};
use crate::routed::{Rules, hierarchy, mixture};
use mesh_core::graph::TensorType;
use mesh_ops::layers::attention::*;
use mesh_ops::layers::moe::{
    Gating, HierarchicalMixture, HierarchicalWeights, MixtureOfExperts, MixtureWeights,
};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{self, At, Case, Fill};

/// One axis and two. With these axis names no inputs are pending; the ops' own cases cover that.
const GRIDS: &[&str] = &["m:2", "m:2;n:2"];
const AXIS: &[&str] = &["m:2", "m:2;n:2"];

/// Few meshes, for layers whose roles are those of another in their table.
const FEW: &[&str] = &["a:2", "a:3", "a:2;b:2"];

fn weights<'g>(kernel: Tensor<'g>, bias: Option<Tensor<'g>>) -> DenseWeights<'g> {
    DenseWeights { kernel, bias }
}

#[test]
fn dense_layers() {
    let (i, j, k) = (dim("i", 4), dim("j", 2), dim("k", 6));
    let e = dim("e", 2);
    conform(
        "dense_layers",
        vec![
            Case::new("several dims summed and produced", move |_, x| {
                let dense = Dense::onto([k, dim("l", 2)]).over([i, j]);
                let dense = dense.activation(Activation::Tanh);
                Dense::apply_with(&dense, x[0], &weights(x[1], Some(x[2])))
            })
            .computes(meanings::dense(&[("i", 4), ("j", 2)], f64::tanh))
            .normal("x", "b:4;i:4;j:2", F32)
            .normal("kernel", "i:4;j:2;k:6;l:2", F32)
            .normal("bias", "k:6;l:2", F32)
            .meshes(GRIDS),
            Case::new("experts in the input", move |_, x| {
                let dense = Dense::onto([k]).over([i]).for_each([e]).unit_scaling();
                Dense::apply_with(&dense, x[0], &weights(x[1], Some(x[2])))
            })
            .computes(|x, ty| {
                // Divided by the root of the number of inputs.
                let products = |at: &At| line(at, ("i", 4), |at| x[0].at(at) * x[1].at(at));
                testing::Dense::each(ty, |at| products(at).iter().sum::<f64>() / 2.0 + x[2].at(at))
            })
            .normal("x", "b:4;e:2;i:4", F32)
            .normal("kernel", "e:2;i:4;k:6", F32)
            .normal("bias", "e:2;k:6", F32)
            .meshes(GRIDS),
            Case::new("experts new", move |_, x| {
                let dense = Dense::onto([k]).over([i]).for_each([e]).without_bias();
                Dense::apply_with(&dense, x[0], &weights(x[1], None))
            })
            .computes(meanings::dense(&[("i", 4)], |y| y))
            .exact()
            .integers("x", "b:4;i:4", F32)
            .integers("kernel", "e:2;i:4;k:6", F32)
            .meshes(GRIDS),
            Case::new("a dim summed and produced", move |_, x| {
                let dense = Dense::onto([i.resized(6), j]).over([i]).without_bias();
                Dense::apply_with(&dense, x[0], &weights(x[1], None))
            })
            .computes(|x, ty| {
                let product = |at: &At| x[0].at(&at.with("i", at.along("_i"))) * x[1].at(at);
                testing::Dense::each(ty, |at| line(at, ("_i", 4), product).iter().sum())
            })
            .exact()
            .integers("x", "b:4;i:4", F32)
            .integers("kernel", "_i:4;i:6;j:2", F32)
            .meshes(GRIDS),
            Case::new("gated feed-forward", move |_, x| {
                let gates = [Activation::Sigmoid, Activation::Linear];
                let layer = FeedForward::new(i, k).activations(gates);
                let inputs = vec![weights(x[1], None), weights(x[2], None)];
                let weights = FeedForwardWeights { inputs, output: weights(x[3], None) };
                FeedForward::apply(&layer, x[0], &weights)
            })
            .computes(|x, ty| {
                let onto = |kernel, at: &At| {
                    let product = |at: &At| x[0].at(at) * testing::Dense::at(kernel, at);
                    line(at, ("i", 4), product).iter().sum::<f64>()
                };
                let hidden = |at: &At| meanings::sigmoid(onto(x[1], at)) * onto(x[2], at);
                let hidden = meanings::tensor("b:4;k:6", hidden);
                let back = meanings::product(&hidden, x[3], "b:4;i:4", &[("k", 6)]);
                testing::Dense::each(ty, |at| back.at(at))
            })
            .normal("x", "b:4;i:4", F32)
            .normal("wi_0", "i:4;k:6", F32)
            .normal("wi_1", "i:4;k:6", F32)
            .normal("wo", "k:6;i:4", F32)
            .meshes(GRIDS),
            // D2 of Mesh TensorFlow: a generic gradient was given a pending sum.
            Case::new("elu and softplus of a split contraction", move |_, x| {
                let h = x[0].einsum(&[x[1]], [dim("b", 4), k]);
                h.elu() + h.softplus() * h.sin()
            })
            .normal("x", "b:4;i:4", F32)
            .normal("w", "i:4;k:6", F32)
            .meshes(GRIDS),
        ],
    );
}

#[test]
fn norms() {
    let k = dim("k", 6);
    conform(
        "norms",
        vec![
            Case::new("layer_norm", move |_, x| {
                Norm::apply(Norm::Layer, x[0], k, &NormWeights { scale: x[1], bias: Some(x[2]) })
            })
            .computes(meanings::norm)
            .normal("x", "b:4;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(&["a:2", "m:2;n:2"]),
            Case::new("rms_norm", move |_, x| {
                Norm::apply(Norm::Rms, x[0], k, &NormWeights { scale: x[1], bias: None })
            })
            .computes(meanings::norm)
            .normal("x", "b:4;k:6", F32)
            .normal("scale", "k:6", F32)
            .meshes(GRIDS),
            Case::new("rms_norm: bf16", move |_, x| {
                Norm::apply(Norm::Rms, x[0], k, &NormWeights { scale: x[1], bias: None })
            })
            .computes(meanings::norm)
            .normal("x", "b:4;k:6", BF16)
            .normal("scale", "k:6", BF16)
            .meshes(GRIDS),
            Case::new("batch_norm", move |g, x| {
                let state = |name| g.state(name, [k], F32, Initializer::ZEROS);
                let (scale, bias) = (x[1], x[2]);
                let (mean, variance) = (state("mean"), state("variance"));
                let weights = BatchNormWeights { scale, bias, mean, variance };
                BatchNorm::train(&BatchNorm::keeping([k]), x[0], &weights).0
            })
            .computes(meanings::batch_norm)
            .normal("x", "b:4;c:2;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(GRIDS),
            Case::new("group_norm", move |_, x| {
                let norm = GroupNorm::new(k, 2).over([dim("h", 2)]);
                GroupNorm::apply(&norm, x[0], &NormWeights { scale: x[1], bias: Some(x[2]) })
            })
            .computes(meanings::group_norm(3))
            .normal("x", "b:4;h:2;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(&["m:2", "m:3", "m:2;n:2"]),
            Case::new("group_norm: instances", move |_, x| {
                let norm = GroupNorm::new(k, 6).over([dim("h", 4)]);
                GroupNorm::apply(&norm, x[0], &NormWeights { scale: x[1], bias: Some(x[2]) })
            })
            .computes(meanings::group_norm(1))
            .normal("x", "b:2;h:4;k:6", F32)
            .normal("scale", "k:6", F32)
            .normal("bias", "k:6", F32)
            .meshes(AXIS),
            Case::new("local_response_norm", move |_, x| {
                let norm = LocalResponseNorm { size: 4, alpha: 0.5, beta: 0.75, k: 2.0 };
                LocalResponseNorm::apply(&norm, x[0], k)
            })
            .computes(|x, ty| {
                testing::Dense::each(ty, |at| {
                    let own = at.along("k");
                    let near = own.saturating_sub(2)..(own + 2).min(6);
                    let response: f64 = near.map(|i| x[0].at(&at.with("k", i)).powi(2)).sum();
                    x[0].at(at) / (2.0 + 0.5 * response / 4.0).powf(0.75)
                })
            })
            .normal("x", "b:4;k:6", F32)
            .meshes(GRIDS),
        ],
    );
}

#[test]
fn losses() {
    let classes = dim("classes", 6);
    let options = CrossEntropy { z_loss: 0.25, label_smoothing: 0.125 };
    conform(
        "losses",
        vec![
            Case::new("cross entropy with options", move |_, x| {
                CrossEntropy::apply(&options, x[0], x[1], classes)
            })
            .computes(meanings::cross_entropy(0.25, 0.125))
            .normal("x", "p:4;classes:6", F32)
            .indices("label", "p:4", 6)
            .meshes(GRIDS),
            Case::new("cross entropy with options: soft", move |_, x| {
                CrossEntropy::apply(&options, x[0], x[1], classes)
            })
            .computes(meanings::cross_entropy(0.25, 0.125))
            .normal("x", "p:4;classes:6", F32)
            .input("target", "p:4;classes:6", F32, Fill::Between(0.0, 1.0))
            .meshes(GRIDS),
            Case::new("softmax_with an extra logit", move |_, x| {
                softmax_with(x[0], classes, Some(x[1]))
            })
            .computes(softmaxed)
            .normal("x", "p:4;classes:6", F32)
            .normal("extra", "p:4", F32)
            .meshes(GRIDS),
            Case::new("sigmoid_cross_entropy", |_, x| sigmoid_cross_entropy(x[0], x[1]))
                .computes(|x, ty| {
                    let loss = |x: f64, z: f64| {
                        let s = meanings::sigmoid(x);
                        -z * s.ln() - (1.0 - z) * (1.0 - s).ln()
                    };
                    testing::Dense::each(ty, |at| loss(x[0].at(at), x[1].at(at)))
                })
                .away_from_zero("x", "p:4;q:6", F32)
                .input("target", "p:4;q:6", F32, Fill::Between(0.0, 1.0))
                .meshes(GRIDS),
            Case::new("weighted_mean", |_, x| weighted_mean(x[0], weights_nonzero(x[1], F32)))
                .computes(|x, ty| {
                    let pairs = x[0].data.iter().zip(&x[1].data);
                    let counted: Vec<_> =
                        pairs.filter(|(_, target)| **target != 0.0).map(|(x, _)| *x).collect();
                    testing::Dense::filled(ty.clone(), meanings::mean(&counted))
                })
                .normal("x", "p:4;q:6", F32)
                .indices("target", "p:4;q:6", 3)
                .meshes(GRIDS),
        ],
    );
}

#[test]
fn embeddings() {
    let vocab = dim("vocab", 6);
    conform(
        "embeddings",
        vec![
            Case::new("embed", move |_, x| embed(x[0], x[1], vocab))
                .computes(|x, ty| {
                    testing::Dense::each(ty, |at| match x[0].at(at) {
                        id if (0.0..6.0).contains(&id) => x[1].at(&at.with("vocab", id as usize)),
                        _ => 0.0,
                    })
                })
                .exact()
                .input("ids", "p:4;q:2", I32, Fill::Integers(-1, 6))
                .integers("table", "vocab:6;model:4", F32)
                .meshes(GRIDS),
            Case::new("embedding_logits", move |_, x| embedding_logits(x[0], x[1], vocab))
                .computes(|x, ty| {
                    // Divided by the root of the vector's size.
                    let products = |at: &At| line(at, ("model", 4), |at| x[0].at(at) * x[1].at(at));
                    testing::Dense::each(ty, |at| products(at).iter().sum::<f64>() / 2.0)
                })
                .normal("x", "p:4;model:4", F32)
                .normal("table", "vocab:6;model:4", F32)
                .meshes(GRIDS),
        ],
    );
}

const LENGTH: usize = 4;

fn dims() -> [Dimension; 4] {
    [dim("length", LENGTH), dim("heads", 2), dim("kv", 4), dim("model", 6)]
}

fn no_options<'g>() -> AttentionOptions<'g> {
    AttentionOptions::default()
}

#[test]
fn dot_products() {
    let [length, _, kv, _] = dims();
    let memory = memory_dim(length);
    let value = dim("value", 2);
    let case =
        |name: &str, options: for<'g> fn(&[Tensor<'g>]) -> AttentionOptions<'g>, logit: Logit| {
            Case::new(name, move |_, x| {
                dot_product_attention(x[0], x[1], x[2], memory, kv, value, &options(x))
            })
            .computes(move |x, ty| {
                let logit = |at: &At| logit(x, at, query_times_key(x, at));
                let value = |at: &At| x[2].at(at);
                testing::Dense::each(ty, |at| {
                    let extra = x.get(4).map(|extra| extra.at(at));
                    Attention { memory: MEMORY, logit: &logit, value: &value, extra }.at(at)
                })
            })
            .normal("q", "b:2;length:4;heads:2;kv:4", F32)
            .normal("k", "b:2;memory_length:4;heads:2;kv:4", F32)
            .normal("v", "b:2;memory_length:4;heads:2;value:2", F32)
            .meshes(AXIS)
        };
    conform(
        "dot_products",
        vec![
            case("attention", |_| no_options(), |_, _, logit| logit).meshes(GRIDS),
            case(
                "masked",
                |x| AttentionOptions { mask: Some(x[3]), ..no_options() },
                |x, at, logit| where_seen(x[3].at(at) != 0.0, logit),
            )
            .bools("mask", "b:2;length:4;memory_length:4"),
            case(
                "added mask",
                |x| AttentionOptions { mask: Some(x[3]), ..no_options() },
                |x, at, logit| logit + x[3].at(at),
            )
            .normal("mask", "length:4;memory_length:4", F32),
            case(
                "bias, extra logit, scale, cap",
                |x| AttentionOptions {
                    bias: Some(x[3]),
                    extra_logit: Some(x[4]),
                    scale: Some(0.5),
                    cap: Some(2.0),
                    ..no_options()
                },
                |x, at, logit| 2.0 * (0.5 * logit / 2.0).tanh() + x[3].at(at),
            )
            .normal("bias", "heads:2;length:4;memory_length:4", F32)
            .normal("extra", "heads:2", F32),
            talking("talking heads", |x| TalkingHeads {
                heads: dim("heads", 2),
                softmax_heads: dim("softmax_heads", 4),
                logits: x[4],
                weights: x[5],
            })
            .normal("mix_logits", "heads:2;softmax_heads:4", F32)
            .normal("mix_weights", "softmax_heads:4;heads:2", F32),
            talking("talking heads: new weights", |x| {
                let of = Parameters::like(x[0]);
                TalkingHeads::new(&of, dim("heads", 2), dim("softmax_heads", 4), "talking")
            }),
        ],
    );
}

const MEMORY: meanings::Along = ("memory_length", 4);

/// What options make of a logit, at a place of queries and memory.
type Logit = fn(&[&testing::Dense], &At, f64) -> f64;

fn query_times_key(x: &[&testing::Dense], at: &At) -> f64 {
    line(at, ("kv", 4), |at| x[0].at(at) * x[1].at(at)).iter().sum()
}

/// Heads that are mixed before the softmax, where a bias is added, and after it.
fn talking(name: &str, heads: for<'g> fn(&[Tensor<'g>]) -> TalkingHeads<'g>) -> Case {
    const HEADS: meanings::Along = ("heads", 2);
    const SOFTMAX_HEADS: meanings::Along = ("softmax_heads", 4);
    let [length, _, kv, _] = dims();
    Case::new(name, move |_, x| {
        let talking = Some(heads(x));
        let options = AttentionOptions { bias: Some(x[3]), talking, ..no_options() };
        let memory = memory_dim(length);
        dot_product_attention(x[0], x[1], x[2], memory, kv, dim("value", 2), &options)
    })
    .computes(|x, ty| {
        let mixed = |at: &At| {
            let logits = |at: &At| query_times_key(x, at) * x[4].at(at);
            line(at, HEADS, logits).iter().sum::<f64>() + x[3].at(at)
        };
        let weight = |at: &At| {
            let share =
                |at: &At| meanings::share(&line(at, MEMORY, mixed), mixed(at), None) * x[5].at(at);
            line(at, SOFTMAX_HEADS, share).iter().sum::<f64>()
        };
        testing::Dense::each(ty, |at| line(at, MEMORY, |at| weight(at) * x[2].at(at)).iter().sum())
    })
    .normal("q", "b:2;length:4;heads:2;kv:4", F32)
    .normal("k", "b:2;memory_length:4;heads:2;kv:4", F32)
    .normal("v", "b:2;memory_length:4;heads:2;value:2", F32)
    .normal("bias", "softmax_heads:4;length:4;memory_length:4", F32)
    .meshes(&["m:2"])
}

/// Four kernels after the input.
fn heads<'g>(x: &[Tensor<'g>]) -> MultiHeadWeights<'g> {
    MultiHeadWeights { query: x[1], key: x[2], value: x[3], output: x[4] }
}

#[test]
fn multi_heads() {
    let [length, of_heads, kv, model] = dims();
    let groups = dim("groups", 2);
    let case = |name: &str, attention: MultiHead, heads_of: Heads, [queries, keys]: [&str; 2]| {
        let kernel = |inner: &str| format!("model:6;{inner}kv:4");
        Case::new(name, move |g, x| {
            let mask = Some(causal(g, length));
            let options = AttentionOptions { mask, ..no_options() };
            MultiHead::self_attention(&attention, x[0], length, &heads(x), None, &options)
        })
        .computes(move |x, ty| heads_of.of(x[0], x[0], &x[1..], ty))
        .normal("x", "b:2;length:4;model:6", F32)
        .normal("wq", &kernel(queries), F32)
        .normal("wk", &kernel(keys), F32)
        .normal("wv", &kernel(keys), F32)
        .normal("wo", &format!("{queries}kv:4;model:6"), F32)
        .meshes(AXIS)
    };
    conform(
        "multi_heads",
        vec![
            case(
                "multi-head",
                MultiHead::new(model, of_heads, kv),
                Heads::MULTI,
                ["heads:2;", "heads:2;"],
            ),
            case(
                "multi-query",
                MultiHead::multi_query(model, of_heads, kv),
                Heads::MULTI_QUERY,
                ["heads:2;", ""],
            ),
            case(
                "grouped",
                MultiHead::grouped(model, groups, of_heads, kv),
                Heads::GROUPED,
                ["groups:2;heads:2;", "groups:2;"],
            ),
            Case::new("cross attention", move |_, x| {
                let attention =
                    MultiHead::new(model, of_heads, kv).with_memory_model(dim("other", 2));
                let memory = dim("source", 2);
                let (weights, options) = (heads(x), no_options());
                MultiHead::cross_attention(&attention, x[0], x[5], memory, &weights, &options)
            })
            .computes(|x, ty| Heads::CROSS.of(x[0], x[5], &x[1..5], ty))
            .normal("x", "b:2;length:4;model:6", F32)
            .normal("wq", "model:6;heads:2;kv:4", F32)
            .normal("wk", "other:2;heads:2;kv:4", F32)
            .normal("wv", "other:2;heads:2;kv:4", F32)
            .normal("wo", "heads:2;kv:4;model:6", F32)
            .normal("memory", "b:2;source:2;other:2", F32)
            .meshes(AXIS),
        ],
    );
}

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

#[test]
fn mixtures() {
    let model = dim("model", 2);
    let case = |name: &str, gating: Gating, jitter: f64| {
        Case::new(name, move |_, x| {
            let (batch, length) = (dim("batch", 2), dim("length", 4));
            let experts = dim("experts", 2);
            let mut mixture = MixtureOfExperts::new(model, dim("hidden", 2), experts, gating);
            mixture.feed_forward = mixture.feed_forward.activations([Activation::Tanh]);
            mixture.router.min_capacity = 2;
            mixture.router.jitter = jitter;
            let feed_forward = FeedForwardWeights {
                inputs: vec![weights(x[2], None)],
                output: weights(x[3], None),
            };
            let weights = MixtureWeights { router: x[1], feed_forward };
            let tokens = [batch, length];
            let (y, losses) = MixtureOfExperts::apply(&mixture, x[0], &tokens, &weights, None);
            y + losses.balance + losses.z
        })
        .normal("x", "batch:2;length:4;model:2", F32)
        .normal("router", "model:2;experts_whole:2", F32)
        .normal("wi", "experts:2;model:2;hidden:2", F32)
        .normal("wo", "experts:2;hidden:2;model:2", F32)
        .meshes(AXIS)
    };
    conform(
        "mixtures",
        vec![
            case("switch, jitter", Gating::Switch, 0.125).meshes(&["m:2"]),
            case("switch", Gating::Switch, 0.0).computes(|x, _| {
                mixture(&Rules { experts: 2, capacity: 2, second_above: None }, x)
            }),
            case("top two", Gating::TopTwo { threshold: 0.25 }, 0.0).computes(|x, _| {
                mixture(&Rules { experts: 2, capacity: 2, second_above: Some(0.25) }, x)
            }),
            Case::new("hierarchical", move |_, x| {
                let (batch, length) = (dim("batch", 2), dim("length", 4));
                let experts = [dim("outer", 2), dim("inner", 2)];
                let gating = Gating::TopTwo { threshold: 0.0 };
                let mut mixture =
                    HierarchicalMixture::new(model, dim("hidden", 2), experts, gating);
                let tanh = mixture.inner.feed_forward.activations([Activation::Tanh]);
                mixture.inner.feed_forward = tanh;
                let feed_forward = FeedForwardWeights {
                    inputs: vec![weights(x[3], None)],
                    output: weights(x[4], None),
                };
                let inner = MixtureWeights { router: x[2], feed_forward };
                let weights = HierarchicalWeights { outer: x[1], inner };
                let tokens = [batch, length];
                let (y, losses) =
                    HierarchicalMixture::apply(&mixture, x[0], &tokens, &weights, None);
                y + losses.balance + losses.z
            })
            .computes(|x, _| {
                let rules = || Rules { experts: 2, capacity: 4, second_above: Some(0.0) };
                hierarchy(&rules(), &rules(), x)
            })
            .normal("x", "batch:2;length:4;model:2", F32)
            .normal("router", "model:2;outer_whole:2", F32)
            .normal("inner_router", "outer:2;model:2;inner_whole:2", F32)
            .normal("wi", "outer:2;inner:2;model:2;hidden:2", F32)
            .normal("wo", "outer:2;inner:2;hidden:2;model:2", F32)
            .meshes(&["m:2"]),
        ],
    );
}

#[test]
fn softmaxes() {
    let classes = dim("classes", 6);
    conform(
        "layers",
        vec![
            Case::new("softmax", move |_, x| softmax(x[0], classes)).computes(softmaxed).normal(
                "x",
                "p:4;classes:6",
                F32,
            ),
            Case::new("log_softmax", move |_, x| log_softmax(x[0], classes))
                .computes(|x, ty| softmaxed(x, ty).map(f64::ln))
                .normal("x", "p:4;classes:6", F32),
            Case::new("logsumexp", move |_, x| logsumexp(x[0], classes))
                .computes(|x, ty| {
                    let logits = |at: &At| line(at, ("classes", 6), |at| x[0].at(at));
                    testing::Dense::each(ty, |at| meanings::logsumexp(&logits(at)))
                })
                .normal("x", "p:4;classes:6", F32),
            Case::new("cross entropy", move |_, x| softmax_cross_entropy(x[0], x[1], classes))
                .computes(meanings::cross_entropy(0.0, 0.0))
                .normal("x", "p:4;classes:6", F32)
                .indices("label", "p:4", 6),
            Case::new("cross entropy: soft", move |_, x| {
                softmax_cross_entropy(x[0], x[1], classes)
            })
            .computes(meanings::cross_entropy(0.0, 0.0))
            .normal("x", "p:4;classes:6", F32)
            .input("target", "p:4;classes:6", F32, Fill::Between(0.0, 1.0)),
            Case::new("weights_nonzero", |_, x| weights_nonzero(x[0], F32))
                .computes(|x, ty| testing::Dense::each(ty, |at| f64::from(x[0].at(at) != 0.0)))
                .input("target", "p:4;q:6", I32, Fill::Integers(-1, 1))
                .meshes(FEW),
        ],
    );
}

#[test]
fn extra_logits() {
    let c = || dim("c", 6);
    let cases = vec![
        Case::new("logsumexp of two dims", move |_, x| {
            logsumexp_with(x[0], [c(), dim("p", 4)], None)
        })
        .computes(|x, ty| {
            let over_c = |at: &At| line(at, ("c", 6), |at| x[0].at(at));
            testing::Dense::each(ty, |at| {
                let all: Vec<_> = (0..4).flat_map(|p| over_c(&at.with("p", p))).collect();
                meanings::logsumexp(&all)
            })
        })
        .normal("x", "p:4;r:2;c:6", F32)
        .meshes(FEW),
        Case::new("logsumexp, extra", move |_, x| logsumexp_with(x[0], [c()], Some(x[1])))
            .computes(|x, ty| {
                let logits = |at: &At| line(at, ("c", 6), |at| x[0].at(at));
                testing::Dense::each(ty, |at| {
                    meanings::logsumexp(&[logits(at), vec![x[1].at(at)]].concat())
                })
            })
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "p:4", F32),
        Case::new("log_softmax, extra", move |_, x| log_softmax_with(x[0], c(), Some(x[1])))
            .computes(|x, ty| softmaxed(x, ty).map(f64::ln))
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "p:4", F32)
            .meshes(FEW),
        Case::new("softmax, extra for all", move |_, x| softmax_with(x[0], c(), Some(x[1])))
            .computes(softmaxed)
            .normal("x", "p:4;c:6", F32)
            .normal("extra", "", F32)
            .meshes(FEW),
        Case::new("softmax, a greater extra", move |_, x| {
            softmax_with(x[0], c(), Some(x[1] + 200.0))
        })
        .normal("x", "p:4;c:6", F64)
        .normal("extra", "p:4", F64)
        .meshes(FEW),
    ];
    conform("extra_logits", cases);
}

#[test]
fn masks() {
    let length = dim("length", 6);
    type Mask = for<'g> fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>;
    let pair = |name: &str, mask: Mask, seen: fn(f64, f64) -> bool| {
        Case::new(name, move |_, x| mask(x[0], x[1]))
            .computes(move |x, ty| {
                testing::Dense::each(ty, |at| f64::from(seen(x[0].at(at), x[1].at(at))))
            })
            .indices("query", "b:2;length:6", 6)
            .indices("memory", "b:2;memory_length:6", 6)
            .meshes(FEW)
    };
    conform(
        "masks",
        vec![
            pair("causal_mask", |q, m| causal_mask(q, m), |q, m| m <= q),
            pair("window_mask", |q, m| window_mask(q, m, 2), |q, m| m <= q && q - m < 2.0),
            pair("segment_mask", |q, m| segment_mask(q, m), |q, m| q == m),
            Case::new("padding_mask", |_, x| padding_mask(x[0]))
                .computes(|x, ty| testing::Dense::each(ty, |at| f64::from(x[0].at(at) != 0.0)))
                .indices("memory", "b:2;memory_length:6", 3)
                .meshes(FEW),
            Case::new("as_memory", move |_, x| as_memory(x[0], length))
                .computes(|x, ty| {
                    let there = |at: &At| at.with("length", at.along("memory_length"));
                    testing::Dense::each(ty, |at| x[0].at(&there(at)))
                })
                .exact()
                .integers("x", "b:2;length:6;heads:2", F32)
                .meshes(FEW),
        ],
    );
}

/// Shares of exponentials along the dim of logits, which has six; an extra logit perhaps among them.
fn softmaxed(x: &[&testing::Dense], ty: &TensorType) -> testing::Dense {
    let dim = if ty.shape.contains("c".into()) { "c" } else { "classes" };
    testing::Dense::each(ty, |at| {
        let logits = line(at, (dim, 6), |at| x[0].at(at));
        meanings::share(&logits, x[0].at(at), x.get(1).map(|extra| extra.at(at)))
    })
}
