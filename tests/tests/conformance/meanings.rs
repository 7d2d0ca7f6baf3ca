//! What layers compute, element by element: by loops over indices, from the formulas of their papers, and
//! not as the layers are composed. Shapes are those of the cases in `layers.rs`.

use mesh_core::graph::TensorType;
use mesh_ops::prelude::*;
use mesh_ops::testing::{At, Dense};

/// The epsilon of every norm.
const EPSILON: f64 = 1e-6;

/// The logit of what may not be seen.
const MASKED: f64 = -1e9;

/// A dim that is summed or looked along.
pub type Along = (&'static str, usize);

/// A tensor of these dims, element by element.
pub fn tensor(shape: &str, element: impl Fn(&At) -> f64) -> Dense {
    Dense::each(&TensorType::new(shape.parse().unwrap(), F64), element)
}

/// The elements along a dim of a function of places.
pub fn line(at: &At, (dim, size): Along, element: impl Fn(&At) -> f64) -> Vec<f64> {
    (0..size).map(|i| element(&at.with(dim, i))).collect()
}

/// The sum of terms over some dims.
pub fn total(at: &At, dims: &[Along], term: &dyn Fn(&At) -> f64) -> f64 {
    match dims.split_first() {
        None => term(at),
        Some((&along, rest)) => line(at, along, |at| total(at, rest, term)).iter().sum(),
    }
}

/// The sum over some dims of the products of two tensors.
pub fn product(x: &Dense, y: &Dense, shape: &str, summed: &[Along]) -> Dense {
    tensor(shape, |at| total(at, summed, &|at| x.at(at) * y.at(at)))
}

pub fn mean(elements: &[f64]) -> f64 {
    elements.iter().sum::<f64>() / elements.len() as f64
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `log(sum(exp(x)))`, of differences to the greatest, as 1e9 is among them.
pub fn logsumexp(x: &[f64]) -> f64 {
    let greatest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    greatest + x.iter().map(|x| (x - greatest).exp()).sum::<f64>().ln()
}

/// The activations in the order of `Activation::ALL`.
pub fn activation(number: usize, x: f64) -> f64 {
    let elu = |scale: f64| if x > 0.0 { x } else { scale * (x.exp() - 1.0) };
    match number {
        0 => x,
        1 => x.max(0.0),
        2 => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            x / 2.0 * (1.0 + u.tanh())
        }
        3 => x * sigmoid(x),
        4 => x.tanh(),
        5 => sigmoid(x),
        6 => (1.0 + x.exp()).ln(),
        7 => elu(1.0),
        _ => 1.050_700_987_355_480_5 * elu(1.673_263_242_354_377_2),
    }
}

/// A product with a kernel over some dims, a bias, and what becomes of each element.
pub fn dense(summed: &[Along], then: fn(f64) -> f64) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    let summed = summed.to_vec();
    move |x, ty| {
        Dense::each(ty, |at| {
            let bias = x.get(2).map_or(0.0, |bias| bias.at(at));
            then(total(at, &summed, &|at| x[0].at(at) * x[1].at(at)) + bias)
        })
    }
}

/// Normalised along a line: by the standard deviation, or if it is not centred by the root of the mean
/// square.
fn normalised(line: &[f64], x: f64, centred: bool) -> f64 {
    let middle = if centred { mean(line) } else { 0.0 };
    let squares: Vec<_> = line.iter().map(|x| (x - middle).powi(2)).collect();
    (x - middle) / (mean(&squares) + EPSILON).sqrt()
}

/// `scale * (x - mean) / deviation + bias` along k, or `scale * x / rms` without a bias.
pub fn norm(x: &[&Dense], ty: &TensorType) -> Dense {
    Dense::each(ty, |at| {
        let line = line(at, ("k", 6), |at| x[0].at(at));
        let bias = x.get(2).map_or(0.0, |bias| bias.at(at));
        normalised(&line, x[0].at(at), x.len() > 2) * x[1].at(at) + bias
    })
}

/// Over b and, where there is one, c.
pub fn batch_norm(x: &[&Dense], ty: &TensorType) -> Dense {
    let of = |at: &At| {
        let over_c = |at: &At| line(at, ("c", extent(x[0], "c")), |at| x[0].at(at));
        (0..extent(x[0], "b")).flat_map(|b| over_c(&at.with("b", b))).collect::<Vec<_>>()
    };
    Dense::each(ty, |at| normalised(&of(at), x[0].at(at), true) * x[1].at(at) + x[2].at(at))
}

/// Over h and groups of so many of the six channels k.
pub fn group_norm(size: usize) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    move |x, ty| {
        Dense::each(ty, |at| {
            let first = at.along("k") / size * size;
            let over_h =
                |k: usize| line(&at.with("k", k), ("h", extent(x[0], "h")), |at| x[0].at(at));
            let group: Vec<_> = (first..first + size).flat_map(over_h).collect();
            normalised(&group, x[0].at(at), true) * x[1].at(at) + x[2].at(at)
        })
    }
}

fn extent(x: &Dense, dim: &str) -> usize {
    x.ty.shape.get(dim.into()).map_or(1, |dim| dim.size)
}

/// The part of `exp(logit)` along a dim, one more logit perhaps added to the sum.
pub fn share(logits: &[f64], own: f64, extra: Option<f64>) -> f64 {
    let all: Vec<_> = logits.iter().copied().chain(extra).collect();
    (own - logsumexp(&all)).exp()
}

/// `-sum(targets * log(share))` of six classes, with options; targets are numbers or weights.
pub fn cross_entropy(z_loss: f64, smoothing: f64) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    const CLASSES: Along = ("classes", 6);
    move |x, ty| {
        Dense::each(ty, |at| {
            let normaliser = logsumexp(&line(at, CLASSES, |at| x[0].at(at)));
            let target = |at: &At| match x[1].ty.dtype.is_float() {
                true => x[1].at(at),
                false => f64::from(x[1].at(at) == at.along("classes") as f64),
            };
            let whole: f64 = line(at, CLASSES, target).iter().sum();
            let smooth = |at: &At| (1.0 - smoothing) * target(at) + smoothing * whole / 6.0;
            let loss = line(at, CLASSES, |at| smooth(at) * (normaliser - x[0].at(at)));
            loss.iter().sum::<f64>() + z_loss * normaliser.powi(2)
        })
    }
}

/// What attention reads: the memory's dim, logits by place of query and memory, and values.
pub struct Attention<'a> {
    pub memory: Along,
    pub logit: &'a dyn Fn(&At) -> f64,
    pub value: &'a dyn Fn(&At) -> f64,
    pub extra: Option<f64>,
}

impl Attention<'_> {
    /// The mean of values, weighted by the shares of logits.
    pub fn at(&self, at: &At) -> f64 {
        let logits = line(at, self.memory, self.logit);
        let weighted = |at: &At| share(&logits, (self.logit)(at), self.extra) * (self.value)(at);
        line(at, self.memory, weighted).iter().sum()
    }
}

/// A logit, or what stands for it where a query may not look.
pub fn where_seen(seen: bool, logit: f64) -> f64 {
    if seen { logit } else { MASKED }
}

/// Pairs `i` and `i + 2` of kv:4 turned by `position * 10^(-i / 2)`.
pub fn turned(x: &Dense, at: &At, position: usize) -> f64 {
    let kv = at.along("kv");
    let angle = position as f64 * 10_f64.powf(-((kv % 2) as f64) / 2.0);
    let other = x.at(&at.with("kv", (kv + 2) % 4));
    let sign = if kv < 2 { -1.0 } else { 1.0 };
    x.at(at) * angle.cos() + sign * other * angle.sin()
}

/// Heads over model:6 and kv:4. Dims of heads, as `heads:2;`, of queries and of keys.
pub struct Heads {
    pub queries: &'static [Along],
    pub keys: &'static [Along],
    /// Dim of what is attended to, and the dim of its model.
    pub source: Along,
    pub source_model: Along,
    pub causal: bool,
    pub turned: bool,
}

impl Heads {
    pub const MULTI: Self = Self {
        queries: &[("heads", 2)],
        keys: &[("heads", 2)],
        source: ("length", 4),
        source_model: ("model", 6),
        causal: true,
        turned: false,
    };
    pub const MULTI_QUERY: Self = Self { keys: &[], ..Self::MULTI };
    pub const GROUPED: Self =
        Self { queries: &[("groups", 2), ("heads", 2)], keys: &[("groups", 2)], ..Self::MULTI };
    /// Decoding position by position is looking back.
    pub const DECODED: Self = Self { turned: true, ..Self::GROUPED };
    pub const CROSS: Self =
        Self { source: ("source", 2), source_model: ("other", 2), causal: false, ..Self::MULTI };

    /// From b:2, length:4, model:6 to the same, with kernels of queries, keys, values and output.
    pub fn of(&self, x: &Dense, source: &Dense, kernels: &[&Dense], ty: &TensorType) -> Dense {
        let dims =
            |dims: &[Along]| dims.iter().map(|(d, n)| format!("{d}:{n};")).collect::<String>();
        let (of_source, n) = self.source;
        let projected = |x, kernel, begin: String, summed: Along| {
            product(x, kernel, &format!("b:2;{begin}kv:4"), &[summed])
        };
        let queries = dims(self.queries);
        let seen = || format!("{of_source}:{n};{}", dims(self.keys));
        let q = projected(x, kernels[0], format!("length:4;{queries}"), ("model", 6));
        let k = projected(source, kernels[1], seen(), self.source_model);
        let v = projected(source, kernels[2], seen(), self.source_model);
        // The source has a dim of its own, as queries may have the same.
        let there = |at: &At| at.with(of_source, at.along("there"));
        let logit = |at: &At| {
            let (from, to) = (at.along("length"), at.along("there"));
            let logit = line(at, ("kv", 4), |at| match self.turned {
                true => turned(&q, at, from) * turned(&k, &there(at), to),
                false => q.at(at) * k.at(&there(at)),
            });
            where_seen(!self.causal || to <= from, logit.iter().sum())
        };
        let value = |at: &At| v.at(&there(at));
        let memory = ("there", n);
        let attention = Attention { memory, logit: &logit, value: &value, extra: None };
        let heads = tensor(&format!("b:2;length:4;{queries}kv:4"), |at| attention.at(at));
        let summed: Vec<_> = self.queries.iter().copied().chain([("kv", 4)]).collect();
        Dense::each(ty, |at| total(at, &summed, &|at| heads.at(at) * kernels[3].at(at)))
    }
}

/// A layer of multi-head attention and a feed-forward part, behind norms of the root of the mean square,
/// each half added to what it was given.
pub fn transformer_layer(x: &[&Dense], ty: &TensorType) -> Dense {
    const ALL: &str = "b:2;length:4;model:6";
    let normed = |x: &Dense, scale: &Dense| {
        let along = |at: &At| line(at, ("model", 6), |at| x.at(at));
        tensor(ALL, |at| normalised(&along(at), x.at(at), false) * scale.at(at))
    };
    let h = normed(x[0], x[5]);
    let part = Heads::MULTI.of(&h, &h, &x[1..5], ty);
    let y = tensor(ALL, |at| x[0].at(at) + part.at(at) / 2.0);
    let hidden = product(&normed(&y, x[6]), x[7], "b:2;length:4;hidden:4", &[("model", 6)]);
    let hidden = tensor("b:2;length:4;hidden:4", |at| hidden.at(at).tanh());
    let part = product(&hidden, x[8], ALL, &[("hidden", 4)]);
    Dense::each(ty, |at| y.at(at) + part.at(at) / 2.0)
}

/// Attention of queries to keys and values of the same positions, all of these dims and kv:4, where a query
/// at one place may see another.
pub fn local(
    dims: &'static [Along],
    seen: impl Fn(&At, &At) -> bool,
) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    let positions: usize = dims.iter().map(|(_, size)| size).product();
    // The place with this number among the positions.
    let place = |at: &At| {
        let mut number = at.along("there");
        let mut place = at.clone();
        for &(dim, size) in dims.iter().rev() {
            place = place.with(dim, number % size);
            number /= size;
        }
        place
    };
    move |x, ty| {
        let logit = |at: &At| {
            let products = line(at, ("kv", 4), |at| x[0].at(at) * x[1].at(&place(at)));
            where_seen(seen(at, &place(at)), products.iter().sum())
        };
        let value = |at: &At| x[2].at(&place(at));
        let memory = ("there", positions);
        let attention = Attention { memory, logit: &logit, value: &value, extra: None };
        Dense::each(ty, |at| attention.at(at))
    }
}

/// Attention to the means of two positions each; perhaps to those only that have ended, or to nothing.
pub fn compressed(back: bool) -> impl Fn(&[&Dense], &TensorType) -> Dense {
    move |x, ty| {
        let means = |x: &Dense, at: &At| {
            mean(&[0, 1].map(|i| x.at(&at.with("length", 2 * at.along("there") + i))))
        };
        let logit = |at: &At| {
            let products = line(at, ("kv", 4), |at| x[0].at(at) * means(x[1], at));
            let ended = 2 * at.along("there") < at.along("length");
            where_seen(ended || !back, products.iter().sum())
        };
        let value = |at: &At| means(x[2], at);
        let extra = back.then_some(0.0);
        let attention = Attention { memory: ("there", 4), logit: &logit, value: &value, extra };
        Dense::each(ty, |at| attention.at(at))
    }
}

/// The bias of a query's distance to what lies before it, in four classes: 0, 1, then those whose
/// logarithms are equally far apart up to 4.
pub fn relative_bias(x: &[&Dense], ty: &TensorType) -> Dense {
    Dense::each(ty, |at| {
        let distance = at.along("length").saturating_sub(at.along("memory_length"));
        let class = match distance {
            0 | 1 => distance,
            far => (2 + (2.0 * (far as f64 / 2.0).log2()).floor() as usize).min(3),
        };
        x[0].at(&at.with("buckets", class))
    })
}

/// A filter that slides over time:8, padding Same: zeros behind the end.
pub fn slid(x: &Dense, at: &At, filter: impl Fn(&At) -> f64) -> f64 {
    let tap = |tap: usize| {
        let time = at.along("time") + tap;
        let under = if time < 8 { x.at(&at.with("time", time)) } else { 0.0 };
        under * filter(&at.with("tap", tap))
    };
    (0..2).map(tap).sum()
}
