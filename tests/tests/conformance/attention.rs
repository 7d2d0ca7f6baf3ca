//! Attention under the legal layouts, against the reference.

use crate::conform;
use crate::layers::{AXIS, FEW, GRIDS};
use crate::meanings::{self, Attention, Heads, line, where_seen};
use mesh_ops::layers::attention::*;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::testing::{self, At, Case};

pub(crate) const LENGTH: usize = 4;

pub(crate) fn dims() -> [Dimension; 4] {
    [dim("length", LENGTH), dim("heads", 2), dim("kv", 4), dim("model", 6)]
}

pub(crate) fn no_options<'g>() -> AttentionOptions<'g> {
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
pub(crate) fn heads<'g>(x: &[Tensor<'g>]) -> MultiHeadWeights<'g> {
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
