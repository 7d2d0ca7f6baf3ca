//! Calls that layers refuse: dims that would make an outer product, and wrong dtypes.

use mesh_ops::conv::Conv;
use mesh_ops::layers::attention::*;
use mesh_ops::layers::moe::{Gating, MixtureOfExperts};
use mesh_ops::layers::*;
use mesh_ops::prelude::*;

/// A bad call of a layer, the op that the error names, and what the error says of the dim or dtype.
type Case = (&'static str, &'static str, for<'g> fn(&'g Graph));

fn of<'g>(g: &'g Graph, name: &str, dims: &str, dtype: DType) -> Tensor<'g> {
    g.input(name, dims.parse::<Shape>().unwrap(), dtype)
}

fn f32s<'g>(g: &'g Graph, dims: &str) -> Tensor<'g> {
    of(g, "x", dims, F32)
}

fn classes() -> Dimension {
    dim("classes", 10)
}

const LOGITS: &str = "batch:4;classes:10";

fn k() -> Dimension {
    dim("k", 6)
}

/// Every call records exactly one error, with the line of the call.
fn all_refuse(cases: &[Case]) {
    for (op, word, build) in cases {
        let g = mesh_ops::graph();
        build(&g);
        let report = g.check().expect_err(&format!("{op}: {word}"));
        let text = report.to_string();
        assert_eq!(report.issues.len(), 1, "{op}: {text}");
        assert!(
            text.starts_with(&format!("{op}: ")) && text.contains(word),
            "{op}, {word}: {text}"
        );
        let file = report.issues[0].at.as_ref().map(|at| at.location.file());
        assert_eq!(file, Some(file!()), "{text}");
    }
}

#[test]
fn losses_refuse_what_logits_lack() {
    fn entropy(g: &Graph, targets: &str, dtype: DType) {
        let logits = f32s(g, LOGITS);
        logits.softmax_cross_entropy(of(g, "targets", targets, dtype), classes());
    }
    all_refuse(&[
        ("softmax_cross_entropy", "has no dim classes:10; cast", |g| entropy(g, "batch:4", F32)),
        ("softmax_cross_entropy", "without the dim classes:10", |g| entropy(g, LOGITS, I32)),
        ("softmax_cross_entropy", "is of bool", |g| entropy(g, "batch:4", Bool)),
        ("softmax_cross_entropy", "not batches:4 (did you mean `batch`?)", |g| {
            entropy(g, "batches:4", I32)
        }),
        ("softmax_cross_entropy", "not batches:4 (did you mean `batch`?)", |g| {
            entropy(g, "batches:4;classes:10", F32)
        }),
        ("softmax_cross_entropy", "not batch:5 (batch is of size 4)", |g| {
            entropy(g, "batch:5", I32)
        }),
        ("softmax_cross_entropy", "has no dim clases:10 (did you mean `classes`?)", |g| {
            f32s(g, LOGITS).softmax_cross_entropy(of(g, "t", "batch:4", I32), dim("clases", 10));
        }),
        ("softmax_cross_entropy", "logits must be floats", |g| {
            let logits = of(g, "x", LOGITS, I32);
            logits.softmax_cross_entropy(of(g, "t", "batch:4", I32), classes());
        }),
        ("sigmoid_cross_entropy", "not batches:4 (did you mean `batch`?)", |g| {
            sigmoid_cross_entropy(f32s(g, "batch:4"), of(g, "t", "batches:4", F32));
        }),
        ("sigmoid_cross_entropy", "targets must be floats", |g| {
            sigmoid_cross_entropy(f32s(g, "batch:4"), of(g, "t", "batch:4", I32));
        }),
        ("weighted_mean", "not lenght:8 (did you mean `length`?)", |g| {
            weighted_mean(f32s(g, "batch:4;length:8"), of(g, "w", "batch:4;lenght:8", F32));
        }),
        ("weighted_mean", "weights must be floats", |g| {
            weighted_mean(f32s(g, "batch:4"), of(g, "w", "batch:4", I32));
        }),
        ("weighted_mean", "what is averaged must be floats", |g| {
            let x = of(g, "x", "batch:4", I32);
            weighted_mean(x, x);
        }),
    ]);
}

#[test]
fn softmax_and_norms_refuse_what_x_lacks() {
    all_refuse(&[
        ("softmax", "has no dim clases:10 (did you mean `classes`?)", |g| {
            f32s(g, LOGITS).softmax(dim("clases", 10));
        }),
        ("softmax", "an extra logit sink: f32[batchs:4]", |g| {
            softmax_with(f32s(g, LOGITS), classes(), Some(of(g, "sink", "batchs:4", F32)));
        }),
        ("softmax", "not classes:10", |g| {
            softmax_with(f32s(g, LOGITS), classes(), Some(of(g, "sink", "classes:10", F32)));
        }),
        ("log_softmax", "has no dim classes:9 (classes is of size 10)", |g| {
            f32s(g, LOGITS).log_softmax(dim("classes", 9));
        }),
        ("log_softmax", "logits must be floats", |g| {
            of(g, "x", LOGITS, I32).log_softmax(classes());
        }),
        ("logsumexp", "has no dim q:2", |g| {
            logsumexp_with(f32s(g, LOGITS), [classes(), dim("q", 2)], None);
        }),
        ("logsumexp", "not p:3", |g| {
            logsumexp_with(f32s(g, LOGITS), [classes()], Some(of(g, "sink", "p:3", F32)));
        }),
        ("layer_norm", "has no dim modle:6 (did you mean `model`?)", |g| {
            layer_norm(f32s(g, "batch:4;model:6"), dim("modle", 6), "n");
        }),
        ("layer_norm", "the input must be floats", |g| {
            layer_norm(of(g, "x", "batch:4;k:6", I32), k(), "n");
        }),
        ("rms_norm", "not kk:6", |g| {
            let weights = NormWeights { scale: of(g, "scale", "kk:6", F32), bias: None };
            Norm::Rms.apply(f32s(g, "batch:4;k:6"), k(), &weights);
        }),
        ("layer_norm", "not k:5 (k is of size 6)", |g| {
            let bias = Some(of(g, "bias", "k:5", F32));
            let weights = NormWeights { scale: of(g, "scale", "k:6", F32), bias };
            Norm::Layer.apply(f32s(g, "batch:4;k:6"), k(), &weights);
        }),
        ("batch_norm", "has no dim kk:6 (did you mean `k`?)", |g| {
            batch_norm(f32s(g, "batch:4;k:6"), [dim("kk", 6)], "n");
        }),
        ("batch_norm", "the input must be floats", |g| {
            batch_norm(of(g, "x", "batch:4;k:6", I32), [k()], "n");
        }),
        ("batch_norm", "has no dim k:6", |g| {
            let norm = BatchNorm::keeping([k()]);
            let weights = norm.weights(&Parameters::new(g, F32), "n");
            norm.evaluate(f32s(g, "batch:4;l:6"), &weights);
        }),
    ]);
}

#[test]
fn dense_layers_and_embeddings_refuse_what_x_lacks() {
    fn table(g: &Graph) -> Tensor<'_> {
        of(g, "table", "vocab:5;model:8", F32)
    }
    all_refuse(&[
        ("dense", "the input must be floats", |g| {
            of(g, "x", "batch:4;k:6", I32).dense(dim("y", 3), "d");
        }),
        ("dense", "has no dim kk:6 (did you mean `k`?)", |g| {
            Dense::onto([dim("y", 3)]).over([dim("kk", 6)]).apply(f32s(g, "batch:4;k:6"), "d");
        }),
        ("dense", "is no weight of dims [k:6, y:3]", |g| {
            let (kernel, bias) = (of(g, "kernel", "k:6;y:3;z:2", F32), None);
            let weights = DenseWeights { kernel, bias };
            Dense::onto([dim("y", 3)]).apply_with(f32s(g, "batch:4;k:6"), &weights);
        }),
        ("feed_forward", "dense: the input x: f32[batch:4, l:6] has no dim k:6", |g| {
            let layer = FeedForward::new(k(), dim("hidden", 4));
            let weights = layer.weights(&Parameters::new(g, F32), "f");
            layer.apply(f32s(g, "batch:4;l:6"), &weights);
        }),
        ("embed", "ids must be i32", |g| {
            embed(f32s(g, "length:3"), table(g), dim("vocab", 5));
        }),
        ("embed", "has no dim vocabulary:5 (did you mean `vocab`?)", |g| {
            embed(of(g, "ids", "length:3", I32), table(g), dim("vocabulary", 5));
        }),
        ("embedding", "ids must be i32", |g| {
            embedding(f32s(g, "length:3"), dim("vocab", 5), [dim("model", 8)], "e");
        }),
        ("embedding_logits", "has no dim model:8 (did you mean `modle`?)", |g| {
            embedding_logits(f32s(g, "length:3;modle:8"), table(g), dim("vocab", 5));
        }),
        ("embedding_logits", "the table table: f32[vocab:5, model:8] has no dim vocab:6", |g| {
            embedding_logits(f32s(g, "length:3;model:8"), table(g), dim("vocab", 6));
        }),
        ("conv_layer", "the input must be floats", |g| {
            let x = of(g, "x", "batch:2;time:8;c:2", I32);
            conv_layer(x, &Conv::over([("time", "tap")]), [2], dim("o", 4), "c");
        }),
    ]);
}

/// `length`, `heads`, `kv`, `model`.
fn dims() -> [Dimension; 4] {
    [dim("length", 4), dim("heads", 2), dim("kv", 6), dim("model", 8)]
}

const Q: &str = "batch:2;length:4;heads:2;kv:6";
const K: &str = "batch:2;memory_length:4;heads:2;kv:6";

fn attend<'g>([q, k, v]: [Tensor<'g>; 3], options: &AttentionOptions<'g>) -> Tensor<'g> {
    let [length, _, kv, _] = dims();
    dot_product_attention(q, k, v, memory_dim(length), kv, kv, options)
}

fn qkv<'g>(g: &'g Graph, shapes: [&str; 3]) -> [Tensor<'g>; 3] {
    [("q", shapes[0]), ("k", shapes[1]), ("v", shapes[2])]
        .map(|(name, dims)| of(g, name, dims, F32))
}

#[test]
fn attention_refuses_what_logits_lack() {
    fn masked(g: &Graph, dims: &str, dtype: DType) {
        let mask = Some(of(g, "mask", dims, dtype));
        attend(qkv(g, [Q, K, K]), &AttentionOptions { mask, ..Default::default() });
    }
    fn plain(g: &Graph, shapes: [&str; 3]) {
        attend(qkv(g, shapes), &AttentionOptions::default());
    }
    all_refuse(&[
        ("dot_product_attention", "not key_length:4", |g| masked(g, "length:4;key_length:4", Bool)),
        ("dot_product_attention", "not memory_lenght:4 (did you mean `memory_length`?)", |g| {
            masked(g, "length:4;memory_lenght:4", F32);
        }),
        ("dot_product_attention", "a mask is of bools, or of floats to be added", |g| {
            masked(g, "length:4;memory_length:4", I32);
        }),
        ("dot_product_attention", "not kv:6", |g| masked(g, "kv:6", Bool)),
        ("dot_product_attention", "a bias bias: f32[head:2] may have", |g| {
            let bias = Some(of(g, "bias", "head:2", F32));
            attend(qkv(g, [Q, K, K]), &AttentionOptions { bias, ..Default::default() });
        }),
        ("dot_product_attention", "a bias must be floats", |g| {
            let bias = Some(of(g, "bias", "heads:2", I32));
            attend(qkv(g, [Q, K, K]), &AttentionOptions { bias, ..Default::default() });
        }),
        ("dot_product_attention", "not memory_length:4", |g| {
            let extra_logit = Some(of(g, "sink", "memory_length:4", F32));
            attend(qkv(g, [Q, K, K]), &AttentionOptions { extra_logit, ..Default::default() });
        }),
        (
            "dot_product_attention",
            "keys k: f32[batch:2, memory_length:4, head:2, kv:6] may have",
            |g| {
                plain(g, [Q, "batch:2;memory_length:4;head:2;kv:6", K]);
            },
        ),
        ("dot_product_attention", "not batches:2 (did you mean `batch`?)", |g| {
            plain(g, [Q, K, "batches:2;memory_length:4;heads:2;kv:6"]);
        }),
        ("dot_product_attention", "has no dim memory_length:4", |g| plain(g, [Q, Q, K])),
        ("dot_product_attention", "rename the dim of keys and values first", |g| {
            plain(g, [K, K, K])
        }),
        ("dot_product_attention", "queries must be floats", |g| {
            let [_, k, v] = qkv(g, [Q, K, K]);
            attend([of(g, "i", Q, I32), k, v], &AttentionOptions::default());
        }),
        ("local_attention", "not memory_lenght:6 (did you mean `memory_length`?)", |g| {
            let [q, k, v] = ["q", "k", "v"].map(|name| of(g, name, "length:8;kv:6", F32));
            let mask = Some(of(g, "mask", "memory_lenght:6", Bool));
            let options = AttentionOptions { mask, ..Default::default() };
            let local = LocalAttention::new(dim("length", 8), 3).in_blocks_of(4);
            local.apply(q, k, v, dims()[2], dims()[2], &options);
        }),
    ]);
}

#[test]
fn positions_and_masks_refuse_what_they_cannot_mean() {
    fn at<'g>(g: &'g Graph, name: &str, dims: &str) -> Tensor<'g> {
        of(g, name, dims, I32)
    }
    all_refuse(&[
        ("causal_mask", "has no dim that q: i32[length:4] lacks", |g| {
            let query = at(g, "q", "length:4");
            causal_mask(query, query);
        }),
        ("causal_mask", "positions must be i32", |g| {
            causal_mask(f32s(g, "length:4"), at(g, "m", "memory_length:4"));
        }),
        ("window_mask", "has no dim that q: i32[length:4] lacks", |g| {
            let query = at(g, "q", "length:4");
            window_mask(query, query, 2);
        }),
        ("segment_mask", "has no dim that s: i32[batch:2, length:4] lacks", |g| {
            let segment = at(g, "s", "batch:2;length:4");
            segment_mask(segment, segment);
        }),
        ("additive_mask", "a mask must be of bools", |g| {
            additive_mask(at(g, "m", "length:4"), F32);
        }),
        ("rotary", "not position:4", |g| {
            let rotation = Rotation::new(at(g, "p", "position:4"), dims()[2], 10.0);
            rotation.apply(f32s(g, Q), dims()[2]);
        }),
        ("rotary", "has no dim kw:6", |g| {
            let rotation = Rotation::new(at(g, "p", "length:4"), dims()[2], 10.0);
            rotation.apply(f32s(g, Q), dim("kw", 6));
        }),
        ("rotary", "have the dim kv:6", |g| {
            Rotation::new(at(g, "p", "kv:6"), dims()[2], 10.0);
        }),
        ("rotary", "positions must be i32", |g| {
            Rotation::new(f32s(g, "length:4"), dims()[2], 10.0);
        }),
        ("rotary", "a base is positive and finite, not -1", |g| {
            Rotation::new(at(g, "p", "length:4"), dims()[2], -1.0);
        }),
        ("relative_bias", "not head:2 (did you mean `heads`?)", |g| {
            let weights = of(g, "weights", "buckets:32;head:2", F32);
            let (query, memory) = (at(g, "q", "length:4"), at(g, "m", "memory_length:4"));
            RelativeBias::looking_back([dims()[1]]).apply(weights, query, memory);
        }),
        ("relative_bias", "has no dim that q: i32[length:4] lacks", |g| {
            let (relative, query) = (RelativeBias::looking_back([]), at(g, "q", "length:4"));
            relative.apply(relative.weights(&Parameters::new(g, F32), "r"), query, query);
        }),
        ("relative_bias", "distances must be i32", |g| {
            RelativeBias::looking_back([]).bucket(f32s(g, "length:4"));
        }),
    ]);
}

#[test]
fn decoding_refuses_what_x_lacks() {
    fn decode<'g>(g: &'g Graph, position: &str, batch: Dimension, mask: Option<Tensor<'g>>) {
        let [length, heads, kv, model] = dims();
        let attention = MultiHead::new(model, heads, kv);
        let weights = attention.weights(&Parameters::new(g, F32), "a");
        let memory = memory_dim(length);
        let cache = attention.empty_cache(g, &[batch], memory, F32);
        let options = AttentionOptions { mask, ..Default::default() };
        let (x, position) = (f32s(g, "batch:2;model:8"), of(g, "position", position, I32));
        attention.decode(x, position, &cache, memory, &weights, None, &options);
    }
    all_refuse(&[
        ("decode", "not batches:2 (did you mean `batch`?)", |g| {
            decode(g, "batches:2", dim("batch", 2), None);
        }),
        ("decode", "the cache", |g| decode(g, "", dim("batches", 2), None)),
        ("decode", "not length:4", |g| {
            let mask = Some(of(g, "mask", "length:4", Bool));
            decode(g, "", dim("batch", 2), mask);
        }),
        ("decode", "a mask is of bools", |g| {
            let mask = Some(of(g, "mask", "memory_length:4", I32));
            decode(g, "", dim("batch", 2), mask);
        }),
    ]);
}

#[test]
fn mixtures_refuse_what_tokens_lack() {
    fn mixture<'g>(g: &'g Graph, x: Tensor<'g>, counted: Option<Tensor<'g>>, router: Option<&str>) {
        let (batch, length) = (dim("batch", 2), dim("length", 4));
        let (hidden, experts) = (dim("hidden", 4), dim("experts", 2));
        let mixture = MixtureOfExperts::new(dim("model", 8), hidden, experts, Gating::Switch);
        let mut weights = mixture.weights(&Parameters::new(g, F32), "m");
        if let Some(router) = router {
            weights.router = of(g, "router", router, F32);
        }
        mixture.apply(x, &[batch, length], &weights, counted);
    }
    const X: &str = "batch:2;length:4;model:8";
    all_refuse(&[
        ("mixture_of_experts", "should have the dims [batch:2, length:4, model:8]", |g| {
            mixture(g, f32s(g, "batch:2;lenght:4;model:8"), None, None);
        }),
        ("mixture_of_experts", "the input must be floats", |g| {
            mixture(g, of(g, "x", X, I32), None, None);
        }),
        ("mixture_of_experts", "not lenght:4 (did you mean `length`?)", |g| {
            mixture(g, f32s(g, X), Some(of(g, "c", "batch:2;lenght:4", F32)), None);
        }),
        ("mixture_of_experts", "importance c: f32[batch:2] has no dim length:4", |g| {
            mixture(g, f32s(g, X), Some(of(g, "c", "batch:2", F32)), None);
        }),
        ("mixture_of_experts", "not extra:3", |g| {
            mixture(g, f32s(g, X), None, Some("model:8;experts_whole:2;extra:3"));
        }),
    ]);
}

#[test]
fn a_beam_search_refuses_other_steps() {
    fn search<'g>(
        g: &'g Graph,
        (first, dtype): (&str, DType),
        alpha: f64,
        step: impl FnOnce(Tensor<'g>, Tensor<'g>) -> (Tensor<'g>, Vec<Tensor<'g>>),
    ) {
        let mut search = BeamSearch::new(dim("beam", 2), dim("length", 3), classes(), 0);
        search.alpha = alpha;
        let states = [of(g, "state", "batch:4;k:6", F32)];
        let first = of(g, "first", first, dtype);
        let (tokens, scores) = search.search(first, &states, |last, _, s| step(last, s[0]));
        assert!(tokens.is_poisoned() && scores.is_poisoned());
    }
    const FIRST: (&str, DType) = ("batch:4", I32);
    fn logits(last: Tensor<'_>) -> Tensor<'_> {
        last.one_hot(classes(), F32)
    }
    all_refuse(&[
        ("beam_search", "first tokens must be i32", |g| {
            search(g, ("batch:4", F32), 0.6, |last, state| (logits(last), vec![state]));
        }),
        ("beam_search", "must not have the dim length:3", |g| {
            search(g, ("batch:4;length:3", I32), 0.6, |last, state| (logits(last), vec![state]));
        }),
        ("beam_search", "alpha is at least 0, not NaN", |g| {
            search(g, FIRST, f64::NAN, |last, state| (logits(last), vec![state]));
        }),
        ("beam_search", "logits must be floats", |g| {
            search(g, FIRST, 0.6, |last, state| (last, vec![state]));
        }),
        ("beam_search", "has no dim classes:10", |g| {
            search(g, FIRST, 0.6, |last, state| (last.cast(F32), vec![state]));
        }),
        ("beam_search", "a step is given 1 states and returns 0", |g| {
            search(g, FIRST, 0.6, |last, _| (logits(last), vec![]));
        }),
        ("beam_search", "has no dim beam:2", |g| {
            search(g, FIRST, 0.6, |last, state| (logits(last), vec![state.sum([dim("beam", 2)])]));
        }),
    ]);
}
