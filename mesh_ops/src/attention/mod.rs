//! `attention(q, k, v, how)`: for each query the mean of values, weighted by the softmax of its products
//! with keys, in blocks: no tensor has a score for each query and each position of the memory.
//!
//! | shape | that of queries with `value` in place of `key`; log-sum-exps: that of queries without `key` |
//! |---|---|
//! | split | dims of queries parallel; the key's exchange(all-gather); the memory's exchange(all-gather), then reduced(sum); the queries' own as memory exchange(permute) |
//! | linear | none |
//! | gradient | of queries, keys, values and bias, block by block; its own gradient by way of whole scores |
//!
//! Queries and memory are cut into blocks. A block of queries meets one block of the memory after the
//! other and keeps, per query, the greatest score `m` so far, the sum `l` of `exp(score - m)`, and the
//! sum of values weighted by these (Milakov, Gimelshein 2018, arXiv 1805.02867; Rabe, Staats 2021, arXiv
//! 2112.05682). Blocks that the [`Mask`] leaves out are not computed. What is left of a query for the
//! gradient is its output and `L = m + log(l)`, from which probabilities are computed again: `P = exp(S - L)`,
//! `dV = P' dO`, `dS = P (dO V' - D)` with `D = sum(dO O) - dL`, `dQ = dS K`, `dK = dS' Q` (Dao et al. 2022,
//! FlashAttention, arXiv 2205.14135, section B.2; Dao 2023, FlashAttention-2, arXiv 2307.08691, section 3.1).
//!
//! A query that may look at nothing has the output 0 and the log-sum-exp -inf.
//!
//! With dropout a weight counts as `Z P`, where `Z` is 0 or `1 / keep` by a random number of its global position:
//! `dV = (Z P)' dO`, `dS = P (Z dO V' - D)`; `L` and `D` stay what they are.

mod backward;
#[cfg(any(test, feature = "testing"))]
mod cases;
mod dropped;
mod exchange;
mod formula;
mod forward;
mod frame;
mod mask;
mod nest;
mod parts;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof;
mod ring;
mod scores;
mod shares;
mod split;

pub(crate) use dropped::scores;
pub use mask::Mask;
pub use split::Exchange;

use crate::room::*;
use backward::AttentionGradient;
use dropped::Dropped;
use mask::{Order, Rules};
use mesh_core::lower::{PlaceCx, PlacedCx, Placing, Shares};
use mesh_core::program::Scalar;
use parts::{Part, Side};

/// Most positions of a block. A block's scores, as f32, take half of a core's second-level cache of
/// 1 MiB, and products of blocks run as fast as large ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Blocks {
    /// Of queries.
    pub queries: usize,
    /// Of the memory.
    pub memory: usize,
}

/// Which part of what a processor has of keys and values goes round at once; it holds a few such blocks more.
const TRAVELLING: usize = 32;
/// Fewest positions in a block that is cut for that, or for a mask: smaller products are slower.
const SMALL: usize = 128;
/// Most positions of a block where rules leave blocks out.
const RULED: usize = 256;
/// Fewest such blocks of a memory that is long enough for smaller ones.
const FEW: usize = 4;

impl Blocks {
    /// Most positions of a block, of so many of the memory that a processor has: fewer where they go round, and
    /// where rules leave blocks out, for the smaller blocks are, the less is computed for nobody.
    fn of(self, rules: Rules, memory: usize, goes_round: bool) -> Self {
        let round = if goes_round { (memory / TRAVELLING).max(SMALL) } else { usize::MAX };
        let ruled = match rules == Rules::default() {
            true => usize::MAX,
            false => (memory / FEW).clamp(SMALL, RULED),
        };
        Self { queries: self.queries.min(ruled), memory: self.memory.min(ruled).min(round) }
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self { queries: 256, memory: 512 }
    }
}

/// What attention does between the products.
#[derive(Clone, Copy, Debug)]
pub struct Attend<'g> {
    /// The dim of the positions that queries look at, of keys and values.
    pub memory: Dimension,
    /// The dim of queries that keys and values have in place of `memory`, where queries look at positions of
    /// their own tensor. What else is said of these positions (bias, bools, the mask's labels) has `memory`.
    pub own: Option<Dimension>,
    /// The dim of queries and keys that products are summed over.
    pub key: Dimension,
    /// The dim of what queries get.
    pub value: Dimension,
    /// Who may attend to whom.
    pub mask: Mask<'g>,
    /// Bools besides, for which no block is left out: where one is false, nobody looks.
    pub allowed: Option<Tensor<'g>>,
    /// Added to scores.
    pub bias: Option<Tensor<'g>>,
    /// Scores are kept between minus this and this: `cap * tanh(score / cap)`.
    pub cap: Option<f64>,
    /// The share of weights that are 0, drawn at random; the others are divided by `1 - dropout`. The
    /// log-sum-exp is that of all scores. For training only.
    pub dropout: f64,
    /// How much is done at once.
    pub blocks: Blocks,
    /// How keys and values of other processors are met.
    pub exchange: Exchange,
}

impl<'g> Attend<'g> {
    /// Everybody looks at everything.
    pub fn new(memory: Dimension, key: Dimension, value: Dimension) -> Self {
        let (mask, blocks, exchange) = (Mask::default(), Blocks::default(), Exchange::Auto);
        let (own, allowed, bias, cap, dropout) = (None, None, None, None, 0.0);
        Self { memory, own, key, value, mask, allowed, bias, cap, dropout, blocks, exchange }
    }

    /// Queries look at positions of their own tensor: keys and values have `length`, as queries do. Under a
    /// layout that splits it, `exchange` says how processors meet each other's keys and values.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::attention::{Attend, Mask, attention};
    /// # let g = mesh_ops::graph();
    /// let (length, memory) = (dim("length", 16), dim("memory_length", 16));
    /// let (heads, kv) = (dim("heads", 4), dim("kv", 8));
    /// let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [length, heads, kv], F32));
    /// let mask = Mask::along(&g, length, memory).causal();
    /// let how = Attend { mask, ..Attend::to_itself(length, memory, kv, kv) };
    /// let (y, _) = attention(q, k, v, &how);
    /// assert_eq!(y.shape(), q.shape());
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_itself(
        length: Dimension,
        memory: Dimension,
        key: Dimension,
        value: Dimension,
    ) -> Self {
        Self { own: Some(length), ..Self::new(memory, key, value) }
    }
}

/// For each query the mean of values along `memory`, weighted by the softmax of its scores, and the
/// log-sum-exp of these, by which results of parts of a memory are merged.
///
/// Scores are products of queries and keys, summed along `key`. Dims that queries and keys share (batch,
/// heads) are done one by one; dims of queries that keys lack share them. Queries have a dim of their
/// own, which is cut into blocks.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::attention::{Attend, Mask, attention};
/// # let g = mesh_ops::graph();
/// let (length, memory) = (dim("length", 16), dim("memory_length", 16));
/// let (heads, kv) = (dim("heads", 4), dim("kv", 8));
/// let q = g.input("q", [length, heads, kv], F32);
/// let (k, v) = (g.input("k", [memory, heads, kv], F32), g.input("v", [memory, heads, kv], F32));
/// let mask = Mask::along(&g, length, memory).causal();
/// let (y, log_sum_exp) = attention(q, k, v, &Attend { mask, ..Attend::new(memory, kv, kv) });
/// assert_eq!(y.shape().to_string(), "[length:16, heads:4, kv:8]");
/// assert_eq!(log_sum_exp.shape().to_string(), "[length:16, heads:4]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn attention<'g>(
    q: Tensor<'g>,
    k: Tensor<'g>,
    v: Tensor<'g>,
    how: &Attend<'g>,
) -> (Tensor<'g>, Tensor<'g>) {
    let graph = q.graph();
    let mut inputs = vec![q, k, v];
    inputs.extend(how.bias.iter().chain(&how.allowed));
    inputs.extend(how.mask.tensors());
    if inputs.iter().any(|x| x.is_poisoned()) {
        return (q.poisoned(), q.poisoned());
    }
    let Some(length) = own_dim([q, k, v], how) else {
        graph.record("attention", format!("{q:?} has no dim of its own to cut into blocks"));
        return (q.poisoned(), q.poisoned());
    };
    if !(0.0..1.0).contains(&how.dropout) {
        let rate = how.dropout;
        graph.record("attention", format!("a rate is at least 0 and below 1, not {rate}"));
        return (q.poisoned(), q.poisoned());
    }
    let mut dropped = None;
    if how.dropout > 0.0 {
        // The numbers that dropout of all weights would draw in this place.
        let key = graph.random_key(crate::random::UNIFORM);
        let (keep, salts) = (Scalar::new(DType::F64, 1.0 - how.dropout), graph.iteration_salts());
        dropped = Some(Dropped { key, keep, salts: salts.len() });
        inputs.extend(salts);
    }
    let op = Attention {
        memory: how.memory.name,
        key: how.key.name,
        value: how.value.name,
        length,
        to_itself: how.own.is_some(),
        cap: how.cap.map(|cap| Scalar::new(DType::F64, cap)),
        bias: how.bias.is_some(),
        allowed: how.allowed.is_some(),
        rules: how.mask.rules,
        dropped,
        order: how.mask.order,
        blocks: how.blocks,
        exchange: how.exchange,
    };
    let made = graph.apply(op, &inputs, 2);
    (made[0], made[1])
}

/// The dim of queries that is cut into blocks: of those that keys and values lack one that the mask's
/// rules are about, else the longest.
pub(crate) fn own_dim(qkv: [Tensor<'_>; 3], how: &Attend<'_>) -> Option<DimName> {
    if let Some(own) = how.own {
        return Some(own.name);
    }
    let [q, k, v] = qkv.map(|x| x.shape());
    let shared = |d: &Dimension| k.contains(d.name) || v.contains(d.name);
    let own = q.iter().filter(|d| d.name != how.key.name && !shared(d));
    let ruled: Vec<_> = how.mask.tensors().map(|x| x.shape()).collect();
    let is_ruled = |d: &Dimension| ruled.iter().any(|shape| shape.contains(d.name));
    own.max_by_key(|d| (is_ruled(d), d.size)).map(|d| d.name)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attention {
    memory: DimName,
    key: DimName,
    value: DimName,
    /// Of queries: cut into blocks.
    length: DimName,
    /// Whether keys and values have `length` in place of `memory`.
    to_itself: bool,
    cap: Option<Scalar>,
    /// Which inputs there are besides queries, keys and values.
    bias: bool,
    allowed: bool,
    rules: Rules,
    dropped: Option<Dropped>,
    /// In what order positions are known to lie.
    order: Order,
    blocks: Blocks,
    exchange: Exchange,
}

/// The dims of an attention, of whole tensors or of slices.
struct Dims {
    key: Dimension,
    value: Dimension,
    memory: Dimension,
    length: Dimension,
    /// Those of queries but for `key`.
    rows: Shape,
}

impl Attention {
    /// What its inputs are, in order.
    fn inputs(&self) -> Vec<Part> {
        let mut all = vec![Part::Query, Part::Key, Part::Value];
        all.extend(self.bias.then_some(Part::Bias));
        all.extend(self.allowed.then_some(Part::Allowed));
        all.extend(self.rules.parts());
        all.extend(self.dropped.into_iter().flat_map(Dropped::parts));
        all
    }

    fn dims(&self, [q, k, v]: [&Shape; 3]) -> Result<Dims, OpError> {
        let of = |what: &str, shape: &Shape, name: DimName| {
            let missing = || OpError::new(format!("attention: {what} {shape} have no dim {name}"));
            shape.get(name).ok_or_else(missing)
        };
        let (key, memory) = (of("queries", q, self.key)?, of("keys", k, self.memory)?);
        let (value, rows) = (of("values", v, self.value)?, q.without(&[self.key]));
        let length = of("queries", q, self.length)?;
        if q.contains(self.memory) {
            return Err(OpError::new(format!(
                "attention: queries {q} have the memory's dim {memory}; rename that of keys and values"
            )));
        }
        for (what, shape, last) in [("keys", k, key), ("values", v, value)] {
            let legal = Shape::new(rows.iter().filter(|d| *d != length).chain([memory, last]))?;
            of(what, shape, last.name)?;
            among(what, shape, &legal)?;
        }
        of("values", v, self.memory)?;
        Ok(Dims { key, value, memory, length, rows })
    }

    /// The dims of keys or values with the memory's, if they have that of queries.
    fn at_memory_dim(&self, shape: &Shape) -> Result<Shape, OpError> {
        if self.to_itself && shape.contains(self.memory) {
            let (memory, own) = (self.memory, self.length);
            return Err(OpError::new(format!(
                "attention: {shape} has the memory's dim {memory}, and is to have that of queries, {own}"
            )));
        }
        let of_memory = self.to_itself.then_some(self.length);
        let renamed = |d: Dimension| match of_memory == Some(d.name) {
            true => d.renamed(self.memory.as_str()),
            false => d,
        };
        Ok(Shape::new(shape.iter().map(renamed))?)
    }

    /// The dims of queries and keys together: whatever else there is has some of these.
    fn scores(&self, dims: &Dims) -> Result<Shape, OpError> {
        Ok(Shape::new(dims.rows.iter().chain([dims.memory]))?)
    }
}

/// That a tensor has no dims but these.
fn among(what: &str, shape: &Shape, legal: &Shape) -> Result<(), OpError> {
    match shape.iter().find(|d| legal.get(d.name) != Some(*d)) {
        None => Ok(()),
        Some(stray) => Err(OpError::new(format!(
            "attention: {what} {shape} may have the dims {legal}, not {stray}{}",
            legal.hint(stray)
        ))),
    }
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let parts = self.inputs();
        let [q, k, v, rest @ ..] = types else {
            return Err(OpError::arity(self.name(), parts.len(), types.len()));
        };
        if types.len() != parts.len() {
            return Err(OpError::arity(self.name(), parts.len(), types.len()));
        }
        if let Some(x) = [q, k, v].into_iter().find(|x| !x.dtype.is_float()) {
            return Err(OpError::new(format!("attention needs floats, not {x}")));
        }
        let [keys, values] = [k, v].map(|x| self.at_memory_dim(&x.shape));
        let dims = self.dims([&q.shape, &keys?, &values?])?;
        self.exchanged(&dims)?;
        let scores = self.scores(&dims)?;
        let (of_memory, of_rows) =
            (Shape::new(scores.iter().filter(|d| *d != dims.length))?, &dims.rows);
        for (part, x) in parts[3..].iter().zip(rest) {
            let (what, legal, fits) = match part {
                Part::Bias => ("a bias", &scores, x.dtype.is_float()),
                Part::Allowed => ("what is allowed", &scores, x.dtype == DType::Bool),
                Part::Each(_, Side::Memory) => {
                    ("a memory's rule", &of_memory, x.dtype == DType::I32)
                }
                Part::Salt(_) => ("a salt", &Shape::scalar(), x.dtype == DType::I32),
                _ => ("a query's rule", of_rows, x.dtype == DType::I32),
            };
            if !fits {
                return Err(OpError::new(format!("attention: {what} is of {}", x.dtype)));
            }
            among(what, &x.shape, legal)?;
        }
        let replaced = |d: Dimension| if d == dims.key { dims.value } else { d };
        let output = Shape::new(q.shape.iter().map(replaced))?;
        let sums = TensorType::new(dims.rows, q.dtype.reduction());
        Ok(vec![TensorType::new(output, v.dtype), sums])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        self.rule()
    }
    fn place(&self, cx: &PlaceCx<'_>) -> Placing {
        self.placed(cx)
    }
    fn shares(&self, cx: &PlacedCx<'_>) -> Option<Shares> {
        self.shared(cx)
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        forward::run(self, cx)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        AttentionGradient::of(self, cx)
    }
}
