//! `dot_product_attention`: the attention of given queries, keys and values.

use super::mask::{MASKED, additive_mask, fit_mask};
use super::talking::TalkingHeads;
use super::{as_memory, memory_dim};
use crate::attention::{Attend, Blocks, Exchange, Mask, attention, own_dim, scores};
use crate::einsum::einsum;
use crate::elementwise::{cast, equal, less, logical_and, logical_not, select, sigmoid, tanh};
use crate::layers::fit::Fit;
use crate::layers::softmax_with;
use crate::random::dropout_over;
use crate::reduce::{any, mean};
use crate::room::*;

/// How attention is computed: the results are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AttentionWay {
    /// In blocks where that is cheaper: for long sequences.
    #[default]
    Auto,
    /// All scores at once.
    Plain,
    /// In blocks of so many positions; see [`attention`].
    Blocks(Blocks),
}

/// Scores of a head, from which on blocks are cheaper: those kept for the gradient fill a core's caches.
const MANY_SCORES: usize = 1 << 20;
/// The same where rules leave blocks out.
const MANY_RULED: usize = 1 << 18;

/// What happens between the products of queries and keys and the weights of values.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'g> {
    /// Who may attend to whom: true where allowed, or floats to be added to logits. It has some of
    /// the logits' dims, and no others.
    pub mask: Option<Tensor<'g>>,
    /// Who may attend to whom by rules, which cost less than a mask: what they rule out need not be
    /// computed. A query to which they leave nothing gets 0.
    pub rules: Mask<'g>,
    /// How many of the memory's first positions there are (i32, with dims of queries or none), if not all:
    /// nobody attends to the rest, and it is not read, as in a cache that has room for more.
    pub filled: Option<Tensor<'g>>,
    /// Whether in blocks.
    pub way: AttentionWay,
    /// How self-attention meets keys and values of other processors where its length is split. `Ring` and
    /// `AllToAll` are done in blocks.
    pub exchange: Exchange,
    /// Added to logits, as relative positions are; it has some of their dims.
    pub bias: Option<Tensor<'g>>,
    /// One more logit, of a memory without value; 0 lets a query attend to nothing.
    pub extra_logit: Option<Tensor<'g>>,
    /// Queries are multiplied by this; else by nothing, and the factor `1 / sqrt(keys)` is in the
    /// initial weights of queries.
    pub scale: Option<f64>,
    /// Logits are kept between minus this and this: `cap * tanh(logits / cap)`.
    pub cap: Option<f64>,
    /// The share of weights that are 0, drawn anew in each call that trains; the others are divided by
    /// `1 - dropout`. For training only: functions that evaluate a model leave it out. Heads that talk mix
    /// what is left.
    pub dropout: f64,
    /// Heads are mixed before and after the softmax.
    pub talking: Option<TalkingHeads<'g>>,
    /// Logits of bf16 queries are computed and normalised in bf16, not f32.
    pub rough_logits: bool,
}

impl<'g> AttentionOptions<'g> {
    /// With the mask `own`, of bools, besides that of the options, which is checked for queries `q`.
    #[track_caller]
    pub(super) fn within(
        &self,
        own: Tensor<'g>,
        q: Tensor<'g>,
        memory: Dimension,
        key: Dimension,
    ) -> Option<Self> {
        let dtype = q.dtype().reduction();
        let Some(mask) = self.mask else {
            return Some(Self { mask: Some(additive_mask(own, dtype)), ..*self });
        };
        let logits = self.in_softmax(&q.shape().without(&[key.name]));
        let logits = Shape::new(logits.iter().chain([memory])).unwrap_or_default();
        if fit_mask(Fit::new(), mask, &logits).refused("attention", q).is_some() {
            return None;
        }
        let mask = match mask.dtype() {
            DType::Bool => additive_mask(logical_and(own, mask), dtype),
            _ => additive_mask(own, dtype) + cast(mask, dtype),
        };
        Some(Self { mask: Some(mask), ..*self })
    }

    /// What is allowed by rules and by bools besides, if there are rules.
    #[track_caller]
    fn rule(&self) -> Option<Tensor<'g>> {
        let rule = self.rules.tensor()?;
        let bools = self.mask.filter(|mask| mask.dtype() == DType::Bool);
        Some(bools.map_or(rule, |bools| logical_and(rule, bools)))
    }

    /// Whether rules, and bools besides, may leave a query nothing.
    fn may_leave_nothing(&self) -> bool {
        let bools = self.mask.is_some_and(|mask| mask.dtype() == DType::Bool);
        self.rules.may_leave_nothing() || bools && self.rules.tensors().next().is_some()
    }

    /// What is done in blocks, where that is asked for or cheaper. Heads that talk need all scores, and
    /// bf16 scores would be rounded otherwise. Beside numbers like -1e9 that are added to all scores of a
    /// query its log-sum-exp would lose the rest, so blocks are not chosen unasked there. What is filled is
    /// looked at by products that leave out the rest.
    #[track_caller]
    fn in_blocks(&self, qkv: [Tensor<'g>; 3], how: Attend<'g>) -> Option<Attend<'g>> {
        let [q, ..] = qkv;
        let (mask, cap, dropout, exchange) = (self.rules, self.cap, self.dropout, self.exchange);
        let how = Attend { mask, cap, dropout, exchange, ..how };
        let how = if how.own.is_some() { how } else { Attend { exchange: Exchange::Auto, ..how } };
        let length = q.shape().get(own_dim(qkv, &how)?)?;
        let blocks = match self.way {
            AttentionWay::Auto => {
                let least = if how.mask.has_rules() { MANY_RULED } else { MANY_SCORES };
                let many = length.size * how.memory.size >= least;
                let added = self.mask.is_some_and(|mask| mask.dtype() != DType::Bool);
                (how.exchange.needs_blocks() || many && !added).then_some(how.blocks)
            }
            AttentionWay::Plain => None,
            AttentionWay::Blocks(blocks) => Some(blocks),
        };
        let whole = self.talking.is_some() || self.rough_logits || self.filled.is_some();
        let blocks = blocks.filter(|_| !whole)?;
        let (allowed, added) = match self.mask {
            Some(mask) if mask.dtype() == DType::Bool => (Some(mask), None),
            added => (None, added),
        };
        let bias = match (self.bias, added) {
            (Some(bias), Some(added)) => Some(bias + cast(added, bias.dtype())),
            (bias, added) => bias.or(added),
        };
        Some(Attend { bias, allowed, blocks, ..how })
    }

    /// Where bools alone leave a query nothing, of some dims of logits: it gets the mean of all values.
    #[track_caller]
    fn nothing(&self, memory: Dimension) -> Option<Tensor<'g>> {
        let bools = self.mask.filter(|mask| mask.dtype() == DType::Bool)?;
        let alone = self.extra_logit.is_none() && self.rule().is_none();
        let dims = bools.shape().iter().filter(|d| *d == memory).collect::<Vec<_>>();
        alone.then(|| logical_not(any(bools, dims)))
    }

    /// What dropout leaves of weights. As in blocks, a random number belongs to a position of all scores, and
    /// a mean of all values is one of all.
    #[track_caller]
    fn dropped(
        &self,
        weights: Tensor<'g>,
        [q, k]: [Tensor<'g>; 2],
        memory: Dimension,
        key: Dimension,
    ) -> Tensor<'g> {
        if self.dropout == 0.0 {
            return weights;
        }
        let dims = scores(&q.shape(), &k.shape(), key.name).unwrap_or_default();
        let dropped = dropout_over(weights, self.dropout, self.in_softmax(&dims));
        match self.nothing(memory) {
            Some(nothing) => select(nothing, weights, dropped),
            None => dropped,
        }
    }

    /// A product of something with the memory, or with logits of its positions.
    #[track_caller]
    fn product(
        &self,
        x: Tensor<'g>,
        of_memory: Tensor<'g>,
        output: &[Dimension],
        memory: Dimension,
    ) -> Tensor<'g> {
        let output = output.iter().copied();
        match self.filled {
            Some(filled) => crate::einsum_filled(x, of_memory, output, memory, filled),
            None => einsum(x, &[of_memory], output),
        }
    }

    /// The dims of logits as they go into the softmax, of these dims of queries.
    pub(super) fn in_softmax(&self, queries: &Shape) -> Shape {
        let Some(talking) = self.talking else { return queries.clone() };
        let replaced = |d| if d == talking.heads { talking.softmax_heads } else { d };
        Shape::new(queries.iter().map(replaced)).unwrap_or_default()
    }
}

/// For each query the sum of `v` along `memory`, weighted by the softmax of the products of query
/// and keys, summed along `key`. The result has the dims of `q` with `key` replaced by `value`.
///
/// Dims that `q` and `k` share (batch, heads) are done one by one; dims of `q` that `k` lacks share
/// keys and values. `k` and `v` have no dims but `memory`, `key` or `value`, and those of `q`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::attention::{AttentionOptions, dot_product_attention};
/// # let g = mesh_ops::graph();
/// let (length, memory) = (dim("length", 16), dim("memory_length", 16));
/// let (heads, kv) = (dim("heads", 4), dim("kv", 8));
/// let q = g.input("q", [length, heads, kv], F32);
/// let (k, v) = (g.input("k", [memory, heads, kv], F32), g.input("v", [memory, heads, kv], F32));
/// let y = dot_product_attention(q, k, v, memory, kv, kv, &AttentionOptions::default());
/// assert_eq!(y.shape().to_string(), "[length:16, heads:4, kv:8]");
/// ```
#[track_caller]
pub fn dot_product_attention<'g>(
    q: Tensor<'g>,
    k: Tensor<'g>,
    v: Tensor<'g>,
    memory: Dimension,
    key: Dimension,
    value: Dimension,
    options: &AttentionOptions<'g>,
) -> Tensor<'g> {
    let _layer = q.graph().for_layer("dot_product_attention");
    let how = Attend::new(memory, key, value);
    if let Some(poisoned) = fit([q, k, v], &how, options).refused("dot_product_attention", q) {
        return poisoned;
    }
    if let Some(how) = options.in_blocks([q, k, v], how) {
        return blockwise([q, k, v], how, options);
    }
    let rule = options.rule();
    let logits = logits(q, k, memory, key, options, rule);
    let extra = options.extra_logit.map(|extra| cast(extra, logits.dtype()));
    let mut weights = softmax_with(logits, memory, extra);
    if let Some(rule) = rule.filter(|_| options.may_leave_nothing()) {
        weights = select(rule, weights, weights.scalar_like(0.0));
    }
    weights = options.dropped(weights, [q, k], memory, key);
    if let Some(talking) = options.talking {
        weights = talking.after(weights);
    }
    let replaced = |d: Dimension| if d == key { value } else { d };
    let output = q.shape().iter().map(replaced).collect::<Vec<_>>();
    options.product(cast(weights, v.dtype()), v, &output, memory)
}

/// Attention of queries to the positions of their own tensor: keys and values have `length` as well. Masks
/// and biases have the memory's dim.
#[track_caller]
pub(super) fn attention_to_itself<'g>(
    q: Tensor<'g>,
    k: Tensor<'g>,
    v: Tensor<'g>,
    length: Dimension,
    kv: Dimension,
    options: &AttentionOptions<'g>,
) -> Tensor<'g> {
    let memory = memory_dim(length);
    let how = Attend::to_itself(length, memory, kv, kv);
    let fit = fit([q, k, v], &how, options);
    let _layer = q.graph().for_layer("dot_product_attention");
    if let Some(poisoned) = fit.refused("dot_product_attention", q) {
        return poisoned;
    }
    if let Some(how) = options.in_blocks([q, k, v], how) {
        return blockwise([q, k, v], how, options);
    }
    if options.exchange.needs_blocks() {
        let message = "all scores at once are made of keys and values that are gathered; `Exchange::Ring` and \
                       `Exchange::AllToAll` need blocks, which `AttentionWay::Plain`, talking heads and rough \
                       logits rule out";
        q.graph().record("dot_product_attention", message);
        return q.poisoned();
    }
    let (k, v) = (as_memory(k, length), as_memory(v, length));
    dot_product_attention(q, k, v, memory, kv, kv, options)
}

/// What attention demands: broadcasting by name would make an outer product of a misspelt dim.
fn fit<'g>([q, k, v]: [Tensor<'g>; 3], how: &Attend<'g>, options: &AttentionOptions<'g>) -> Fit {
    let Attend { memory, own, key, value, .. } = *how;
    // Where positions of the memory lie in keys and values.
    let at = own.unwrap_or(memory);
    let mut fit = Fit::new();
    for (what, x) in [("queries", q), ("keys", k), ("values", v)] {
        fit = fit.floats(what, x);
    }
    fit = fit.has("queries", q, key).has("keys", k, key).has("keys", k, at);
    fit = fit.has("values", v, at).has("values", v, value).and(q, || {
        let twice = q.shape().contains(memory.name);
        let advice = "rename the dim of keys and values first";
        twice.then(|| format!("{q:?} has the memory's dim {memory}; {advice}"))
    });
    let shared = q.shape().without(&[key.name]);
    let others = shared.without(&[at.name]);
    let with = |dims: &[Dimension]| Shape::new(others.iter().chain(dims.iter().copied()));
    let of = |shape: Result<Shape, _>| shape.unwrap_or_else(|_| shared.clone());
    let of_softmax = options.in_softmax(&shared);
    let logits = of(Shape::new(of_softmax.iter().chain([memory])));
    if let Some(talking) = options.talking {
        fit = talking.fit(fit, q);
    }
    fit = fit.among("keys", k, &of(with(&[at, key])));
    fit = fit.among("values", v, &of(with(&[at, value])));
    if let Some(mask) = options.mask {
        fit = fit_mask(fit, mask, &logits);
    }
    for rule in options.rules.tensors() {
        fit = fit.integers("rules", rule).among("rules", rule, &logits);
    }
    let rate = options.dropout;
    fit = fit.and(q, || {
        let wrong = !(0.0..1.0).contains(&rate);
        wrong.then(|| format!("a rate is at least 0 and below 1, not {rate}"))
    });
    if let Some(filled) = options.filled {
        fit = fit.integers("what is filled", filled).among("what is filled", filled, &shared);
    }
    if let Some(bias) = options.bias {
        fit = fit.floats("a bias", bias).among("a bias", bias, &logits);
    }
    match options.extra_logit {
        Some(extra) => {
            fit.floats("an extra logit", extra).among("an extra logit", extra, &of_softmax)
        }
        None => fit,
    }
}

/// Products of queries and keys as they go into the softmax, the memory innermost.
#[track_caller]
fn logits<'g>(
    q: Tensor<'g>,
    k: Tensor<'g>,
    memory: Dimension,
    key: Dimension,
    options: &AttentionOptions<'g>,
    rule: Option<Tensor<'g>>,
) -> Tensor<'g> {
    let dtype = if options.rough_logits { q.dtype() } else { q.dtype().reduction() };
    let (mut q, k) = (cast(q, dtype), cast(k, dtype));
    if let Some(scale) = options.scale {
        q = q * scale;
    }
    // Shared dims outermost: one matrix product of queries and memory for each of their indices.
    let dims = scores(&q.shape(), &k.shape(), key.name).unwrap_or_default();
    let dims: Vec<_> = dims.iter().collect();
    let mut logits = options.product(q, k, &dims, memory);
    if let Some(talking) = options.talking {
        logits = talking.before(logits);
    }
    if let Some(cap) = options.cap {
        logits = tanh(logits * (1.0 / cap)) * cap;
    }
    if let Some(bias) = options.bias {
        logits = logits + cast(bias, dtype);
    }
    logits = match options.mask {
        Some(mask) if mask.dtype() == DType::Bool && rule.is_some() => logits,
        Some(mask) if mask.dtype() == DType::Bool => select(mask, logits, q.scalar_like(MASKED)),
        Some(mask) => logits + cast(mask, dtype),
        None => logits,
    };
    if let Some(filled) = options.filled {
        let positions = crate::range(q.graph(), memory, DType::I32);
        logits = logits + additive_mask(less(positions, filled), dtype);
    }
    match rule {
        Some(rule) if options.may_leave_nothing() => select(rule, logits, q.scalar_like(MASKED)),
        Some(rule) => logits + additive_mask(rule, dtype),
        None => logits,
    }
}

/// Attention block by block. The weight of an extra logit is what it has of the sum of exponentials.
#[track_caller]
fn blockwise<'g>(
    [q, k, v]: [Tensor<'g>; 3],
    how: Attend<'g>,
    options: &AttentionOptions<'g>,
) -> Tensor<'g> {
    let wide = q.dtype().reduction();
    let scaled = options.scale.map_or(q, |scale| cast(q, wide) * scale);
    let (mut y, log_sum_exp) = attention(scaled, k, v, &how);
    if how.allowed.is_some() && options.extra_logit.is_none() && options.rule().is_none() {
        // Bools alone leave the mean of all values to whom they leave nothing.
        let nothing = equal(log_sum_exp, log_sum_exp.scalar_like(f64::NEG_INFINITY));
        y = crate::broadcast(
            select(nothing, mean(v, [how.own.unwrap_or(how.memory)]), y),
            &y.shape(),
        );
    }
    match options.extra_logit {
        Some(extra) => {
            let kept = sigmoid(log_sum_exp - cast(extra, wide));
            cast(cast(y, wide) * kept, v.dtype())
        }
        None => y,
    }
}
