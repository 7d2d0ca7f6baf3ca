//! Random graphs of f64 with bounds of their rounding errors.
//!
//! For each tensor, bounds of its elements and of their error are known. The error is that of the
//! inputs, times the steepest slope within the bounds, plus the op's own rounding. An op that is
//! not continuous has a known error only where its inputs have none.

use crate::attended;
use crate::bounds::{Known, Site, propagate};
use crate::handed;
use crate::recipe::{Draw, Drawn, SMALL, one};
use mesh_core::graph::{Graph, Kind, TensorId, TensorType};
use mesh_ops::elementwise::*;
use mesh_ops::pool::{Pool, avg_pool, max_pool};
use mesh_ops::prelude::*;
use mesh_ops::random::{
    multiplicative_jitter, random_normal, random_truncated_normal, random_uniform,
};
use mesh_ops::testing::{Case, Dense, Fill, Given, Room, meaning, rooms};
use mesh_ops::{AssociativeScan, linear_recurrence};
use std::collections::BTreeMap;

/// Rounding of one op, relative to its greatest result: functions are good to 4 units in the last
/// place, which is 2^-52 of the result, and the reference rounds as well.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Tensors whose error may be larger are left out, as they could hide a mistake.
const ERROR_MOST: f64 = 1e-8;

/// Tensors with larger elements are left out, too.
const MAGNITUDE_MOST: f64 = 1e6;

/// The drawing functions of smooth ops, and of ops with corners.
pub const OPS: &[Drawn] = &[
    |d| one(d.a + d.alike()?),
    |d| one(d.a - d.alike()?),
    |d| one(d.a * d.alike()?),
    |d| one(d.a / (d.alike()?.square() + 1.0)),
    |d| one((d.a.square() + 0.5).pow(d.alike()?.tanh())),
    |d| one(d.a.einsum(&[d.alike()?], d.some_of(&d.all()))),
    |d| one(d.a.einsum(&[d.alike()?], d.some_of(&d.all()))),
    |d| one(maximum(d.a, d.alike()?)),
    |d| one(minimum(d.a, d.alike()?)),
    |d| one(d.a.sum(d.some_dims())),
    |d| one(d.a.mean_over(d.some_dims())),
    |d| one(if d.heads() { d.a.max(d.some_dims()) } else { d.a.min(d.some_dims()) }),
    |d| one(d.a.exp()),
    |d| one(if d.heads() { d.a.expm1() } else { (d.a.square() + 0.25).log() }),
    |d| one(d.a.square().log1p()),
    |d| one(if d.heads() { d.a.sin() } else { d.a.cos() }),
    |d| one(d.a.tanh()),
    |d| one(if d.heads() { d.a.erf() } else { d.a.erfc() }),
    |d| one(if d.heads() { d.a.sigmoid() } else { d.a.softplus() }),
    |d| one(if d.heads() { d.a.gelu() } else { d.a.gelu_exact() }),
    |d| one(if d.heads() { d.a.elu() } else { d.a.selu() }),
    |d| one(if d.heads() { d.a.swish() } else { d.a.relu() }),
    |d| one(if d.heads() { d.a.leaky_relu(0.2) } else { d.a.clip(-0.75, 1.5) }),
    |d| one((d.a.square() + 0.5).powf([-1.5, 0.5, 2.5][usize::from(d.pick.b) % 3])),
    |d| {
        let x = d.a.square() + 0.5;
        one(if d.heads() { x.sqrt() } else { x.rsqrt() })
    },
    |d| one((d.a.square() + 1.0).reciprocal()),
    |d| one(atan2(d.a, d.alike()?.square() + 0.5)),
    |d| {
        let x = d.a.tanh() * 0.5;
        one(if d.heads() { asin(x) } else { acos(x) })
    },
    attended::of_one,
    // There are many of these.
    of_a_room,
    of_a_room,
    of_a_room,
    of_a_room,
    of_a_room,
    of_a_room,
    |d| one(if d.heads() { d.a.softmax(d.dim()?) } else { d.a.log_softmax(d.dim()?) }),
    |d| one(d.a.logsumexp(d.dim()?)),
    |d| one(d.a.variance(d.some_dims())),
    |d| one(d.a.cumsum(d.dim()?)),
    |d| {
        let (along, b) = (d.dim()?, d.pick.b);
        one(match b % 4 {
            0 => {
                let how = AssociativeScan { reverse: d.heads(), blocks: None };
                linear_recurrence(d.a.sigmoid(), d.a, along, how)
            }
            1 => mesh_ops::cummax(d.choice(d.a), along),
            2 => mesh_ops::quantile(d.choice(d.a), f64::from(b / 4) / 64.0, along),
            _ => mesh_ops::logcumsumexp(d.a, along),
        })
    },
    |d| {
        // What pooling means is told window by window, which takes minutes for large tensors.
        let is_small = d.a.shape().size() <= SMALL.most;
        let along = d.dim().filter(|d| d.size >= 4 && is_small)?;
        let pool = Pool::over([(along.name, 2 + usize::from(d.pick.b) % 2)]);
        let pool = if d.heads() { pool.strides([1]) } else { pool };
        let pooled = if d.pick.dims % 2 == 0 { max_pool } else { avg_pool };
        d.resized(pooled(d.a, &pool), along).and_then(one)
    },
    |d| one(mesh_ops::shift(d.a, d.dim()?, i64::from(d.pick.b % 16) - 8, d.heads())),
    |d| {
        let (along, k) = d.cut()?;
        let kept = dim(&format!("kept{k}"), k);
        let fits = !d.a.shape().contains(kept.name);
        fits.then(|| vec![d.a.top_k(along, kept).0])
    },
    |d| one(multiplicative_jitter(d.a, 0.25)),
    |d| {
        let (dims, noises) = (d.some_dims(), [random_normal, random_truncated_normal]);
        let noise = match usize::from(d.pick.b) % 3 {
            2 => random_uniform(d.graph, dims, -1.0, 1.0, F64),
            i => noises[i](d.graph, dims, 0.0, 0.5, F64),
        };
        one(d.a + noise)
    },
    |d| {
        let along = d.dim().filter(|d| d.size <= 6)?;
        let first = d.a.sum([along]);
        let (last, stacks) = d.graph.scan_lists(along, &[first], &[d.a], |h, x| {
            (vec![(h[0] * 0.5 + x[0]).tanh()], vec![h[0] * x[0]])
        });
        Some(vec![last[0], stacks[0]])
    },
    handed::on,
    |d| {
        let [y] = d.graph.recompute([d.a], |[a]| [(a.tanh() * a).sin()]);
        one(y)
    },
];

fn elementwise() -> impl Iterator<Item = &'static Room> {
    rooms().filter(|room| room.name().starts_with("elementwise"))
}

/// A function of an elementwise room, of what is brought to where its cases have their inputs.
fn of_a_room<'g>(d: &Draw<'g>) -> Option<Vec<Tensor<'g>>> {
    let cases = elementwise().flat_map(|room| {
        let own = |case: &Case| room.exports().contains(&case.name());
        room.cases().into_iter().filter(own)
    });
    let of_floats = |case: &Case| case.inputs().iter().all(|x| x.dtype == F32);
    let cases: Vec<_> = cases.filter(of_floats).collect();
    let case = &cases[usize::from(d.pick.dims) % cases.len()];
    let operands = [d.a, if case.inputs().len() > 1 { d.alike()? } else { d.a }];
    let brought = |(x, given): (Tensor<'g>, &Given)| match given.fill {
        Fill::Between(low, high) => x.sigmoid() * (high - low) + low,
        Fill::AwayFromZero => x.square() + 0.25,
        _ => x,
    };
    let operands: Vec<_> = operands.into_iter().zip(case.inputs()).map(brought).collect();
    one(case.outputs(d.graph, &operands)[0].cast(d.a.dtype()))
}

/// Bounds of elements, and of their error.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub low: f64,
    pub high: f64,
    pub error: f64,
}

const UNKNOWN: Range = Range { low: f64::NEG_INFINITY, high: f64::INFINITY, error: f64::INFINITY };

impl Known for Range {
    fn either(self, other: Self) -> Self {
        let (low, high) = (self.low.min(other.low), self.high.max(other.high));
        Self { low, high, error: self.error.max(other.error) }
    }

    fn position(rounds: usize) -> Self {
        Self { low: 0.0, high: rounds as f64, error: 0.0 }
    }

    fn zero() -> Self {
        Self { low: 0.0, high: 0.0, error: 0.0 }
    }
}

impl Range {
    /// A range with an error from the inputs; the op's own rounding is added.
    fn new(low: f64, high: f64, error: f64) -> Self {
        let most = low.abs().max(high.abs());
        // What is flat where nothing is known: nothing is known.
        let error = if error.is_nan() { f64::INFINITY } else { error };
        Self { low, high, error: error + ROUNDING * most }
    }

    fn most(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The least magnitude, with the error taken into account.
    fn least(self) -> f64 {
        let least = if self.low > 0.0 { self.low } else { -self.high };
        (least - self.error).max(0.0)
    }

    /// The range of a monotone function with this steepest slope.
    fn monotone(self, f: impl Fn(f64) -> f64, slope: f64) -> Self {
        let (a, b) = (f(self.low), f(self.high));
        Self::new(a.min(b), a.max(b), slope * self.error)
    }

    /// The range of a function that is no steeper than `slope` and is `at_zero` at 0.
    fn lipschitz(self, slope: f64, at_zero: f64) -> Self {
        let most = slope * self.most() + at_zero;
        Self::new(-most, most, slope * self.error)
    }

    fn times(self, other: Self) -> Self {
        let ends = [self.low * other.low, self.low * other.high];
        let ends = [ends, [self.high * other.low, self.high * other.high]].concat();
        let (low, high) = ends.iter().fold((f64::MAX, f64::MIN), |(l, h), &x| (l.min(x), h.max(x)));
        let error = self.error * (other.most() + other.error) + other.error * self.most();
        Self::new(low, high, error)
    }

    fn plus(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high, self.error + other.error)
    }

    /// The range of a sum of so many terms, added one after another.
    fn summed(self, terms: f64) -> Self {
        let (low, high) = ((self.low * terms).min(self.low), (self.high * terms).max(self.high));
        Self::new(low, high, terms * (self.error + ROUNDING * terms * self.most()))
    }

    /// The result of an op that is not continuous, which is known only for exact inputs.
    fn jumps(self, result: Self) -> Self {
        if self.error == 0.0 { result } else { UNKNOWN }
    }
}

/// `None` for an op without bounds here.
fn unary(name: &str, x: Range) -> Option<Range> {
    let reciprocal = 1.0 / x.least();
    Some(match name {
        "neg" => Range { low: -x.high, high: -x.low, error: x.error },
        "square" => {
            let low = if x.low < 0.0 && x.high > 0.0 { 0.0 } else { x.least().powi(2) };
            Range::new(low, x.most().powi(2), 2.0 * x.error * (x.most() + x.error))
        }
        "exp" => x.monotone(f64::exp, (x.high + x.error).exp()),
        "expm1" => x.monotone(f64::exp_m1, (x.high + x.error).exp()),
        "log" if x.low > x.error => x.monotone(f64::ln, reciprocal),
        "log1p" if x.low >= 0.0 => x.monotone(f64::ln_1p, 1.0),
        "sqrt" if x.low > x.error => x.monotone(f64::sqrt, 0.5 * reciprocal.sqrt()),
        "rsqrt" if x.low > x.error => x.monotone(|x| 1.0 / x.sqrt(), reciprocal.powf(1.5)),
        "reciprocal" if x.low > x.error => x.monotone(|x| 1.0 / x, reciprocal.powi(2)),
        // The exponents that are drawn are at most 2.5, those of their derivatives 3.5.
        "powf" if x.low > x.error => {
            let most = x.high.max(reciprocal).max(1.0).powf(3.5);
            Range::new(1.0 / most, most, 3.5 * most * reciprocal * x.error)
        }
        "sigmoid" => x.monotone(|x| 1.0 / (1.0 + (-x).exp()), 0.25),
        "softplus" => x.monotone(|x| x.max(0.0) + (-x.abs()).exp().ln_1p(), 1.0),
        "tanh" => x.monotone(f64::tanh, 1.0),
        "sin" | "cos" => Range::new(-1.0, 1.0, x.error),
        "erf" => Range::new(-1.0, 1.0, 1.13 * x.error),
        "erfc" => Range::new(0.0, 2.0, 1.13 * x.error),
        "relu" => x.monotone(|x| x.max(0.0), 1.0),
        "abs" | "gelu" | "gelu_exact" | "swish" => x.lipschitz(1.13, 0.0),
        "clip" | "leaky_relu" => x.lipschitz(1.0, 1.5),
        "elu" | "selu" => x.lipschitz(1.76, 0.0),
        "sign" => x.jumps(Range::new(-1.0, 1.0, 0.0)),
        "log" | "log1p" | "sqrt" | "rsqrt" | "reciprocal" | "powf" => UNKNOWN,
        // They jump.
        "floor" | "ceil" | "round" | "trunc" => UNKNOWN,
        "is_finite" | "is_inf" | "is_nan" if x.error.is_finite() => {
            Range { low: 0.0, high: 1.0, error: 0.0 }
        }
        "is_finite" | "is_inf" | "is_nan" => UNKNOWN,
        _ => return None,
    })
}

/// Of an elementwise op of one or two inputs, from what it means between the bounds of
/// its inputs: it is taken to be no more than twice as steep between two points as from one to the next.
fn sampled(site: &Site<'_>, x: &[Range]) -> Range {
    const POINTS: usize = 65;
    let op = &*site.operation.op;
    let is_own = elementwise().any(|room| room.has(op)) && x.len() < 3;
    if !is_own || x.iter().any(|x| x.error > ERROR_MOST || x.most() > MAGNITUDE_MOST) {
        return UNKNOWN;
    }
    // Along a dim of its own, each input goes from one of its bounds to the other.
    let dims: Vec<_> = (0..x.len()).map(|i| dim(&format!("x{i}"), POINTS)).collect();
    let ty = |dims: &[Dimension]| TensorType::new(Shape::new(dims.to_vec()).unwrap(), F64);
    let step = |x: &Range| (x.high - x.low).max(1e-3) / (POINTS - 1) as f64;
    let line = |(x, d): (&Range, &Dimension)| {
        let data = (0..POINTS).map(|i| x.low + i as f64 * step(x)).collect();
        Dense { ty: ty(&[*d]), data }
    };
    let lines: Vec<_> = x.iter().zip(&dims).map(line).collect();
    let means = meaning(op, &lines.iter().collect::<Vec<_>>(), &[ty(&dims)]);
    let Some(values) = means.map(|values| values[0].data.clone()) else { return UNKNOWN };
    if values.iter().any(|value| !value.is_finite()) {
        return UNKNOWN;
    }
    let (mut low, mut high) =
        values.iter().fold((f64::MAX, f64::MIN), |(l, h), &x| (l.min(x), h.max(x)));
    let mut error = 0.0;
    for (i, x) in x.iter().enumerate() {
        let apart = POINTS.pow((dims.len() - 1 - i) as u32);
        let next = (0..values.len()).filter(|at| at / apart % POINTS + 1 < POINTS);
        let rise = next.map(|at| (values[at + apart] - values[at]).abs()).fold(0.0, f64::max);
        (low, high) = (low - rise, high + rise);
        error += 2.0 * rise / step(x) * x.error;
    }
    Range::new(low, high, error)
}

fn rule(site: &Site<'_>, x: &[Range]) -> Range {
    let zero = Range::zero();
    let hull = || x.iter().copied().reduce(Known::either).unwrap_or(UNKNOWN);
    match (&site.operation.kind, site.name()) {
        (Kind::Input(_), _) => Range { low: -1.0, high: 1.0, error: 0.0 },
        (Kind::Fill(value), _) => Range { low: *value, high: *value, error: 0.0 },
        (_, "random_uniform") => Range { low: -1.0, high: 2.0, error: 0.0 },
        // The inverse of the distribution is good to at least 10 digits.
        (_, "random_normal" | "random_truncated_normal") => Range::new(-8.0, 8.0, 1e-11),
        (_, "range") => Range { low: 0.0, high: site.output.size() as f64, error: 0.0 },
        (_, "add") => x[0].plus(x[1]),
        (_, "sub") => {
            Range::new(x[0].low - x[1].high, x[0].high - x[1].low, x[0].error + x[1].error)
        }
        (_, "mul") => x[0].times(x[1]),
        (_, "div") if x[1].least() > 0.0 => {
            let over = x[1].monotone(|x| 1.0 / x, x[1].least().powi(-2));
            x[0].times(over)
        }
        (_, "pow") if x[0].low > x[0].error => {
            let log = x[0].monotone(f64::ln, 1.0 / x[0].least());
            unary("exp", log.times(x[1])).unwrap_or(UNKNOWN)
        }
        (_, "einsum") => x[0].times(x[1]).summed(site.terms()),
        (_, "sum") => x[0].summed(site.terms()),
        (_, "cumsum") => x[0].either(zero).summed(site.longest()),
        (_, "linear_recurrence") => {
            let next = |state: Range, _| state.either(x[0].times(state).plus(x[1]));
            let state = (1..site.longest() as usize).fold(x[1], next);
            // Over a split dim, factors and sums are rounded by themselves, then states.
            Range { error: 3.0 * state.error, ..state }
        }
        (_, "attention") => {
            let scores = x[0].times(x[1]).summed(site.size(1));
            let slope = x[2].error + 2.0 * x[2].most() * scores.error;
            let own = ROUNDING * site.size(1) * x[2].most();
            Range { error: slope + own, ..x[2].either(zero) }
        }
        (_, "scatter_add") => x[1].jumps(x[0].either(zero).summed(site.size(0))),
        (_, "gather") => x[1].jumps(x[0].either(zero)),
        (_, "top_k") | (_, "max" | "min" | "broadcast" | "transpose" | "reshape" | "cast") => x[0],
        (_, "slice" | "pick" | "max_pool" | "cummax") => x[0],
        (_, "avg_pool" | "avg_pool_gradient") => x[0].either(zero).summed(site.longest()),
        (_, "shift" | "pad" | "windows") => x[0].either(zero),
        (_, "maximum" | "minimum" | "concat" | "stack") => hull(),
        (_, "select") => x[0].jumps(x[1].either(x[2])),
        (_, "select_gradient") => x[0].jumps(x[1].either(zero)),
        (_, "relu_gradient" | "clip_gradient" | "leaky_relu_gradient") => {
            x[0].jumps(x[1].either(zero))
        }
        (_, "extremum_gradient") => x[0].jumps(x[1].jumps(x[2].either(zero))),
        (_, "max_pool_count") => {
            x[0].jumps(x[1].jumps(Range { low: 1.0, high: site.longest(), error: 0.0 }))
        }
        (_, "max_pool_gradient") => {
            x[0].jumps(x[1].jumps(x[2].either(zero).summed(site.longest())))
        }
        (_, "equal" | "not_equal" | "greater" | "greater_equal" | "less" | "less_equal") => {
            x[0].jumps(x[1].jumps(Range::new(0.0, 1.0, 0.0)))
        }
        (_, "div" | "pow" | "floordiv" | "modulo") => UNKNOWN,
        (_, name) if x.len() == 1 => unary(name, x[0]).unwrap_or_else(|| sampled(site, x)),
        _ => sampled(site, x),
    }
}

fn ranges(graph: &Graph) -> BTreeMap<TensorId, Range> {
    propagate(graph, |site: &Site<'_>, x: &[Range]| {
        if matches!(site.operation.kind, Kind::Identity) {
            return x[..site.operation.outputs.len()].to_vec();
        }
        let mut made = vec![rule(site, x); site.operation.outputs.len()];
        if site.name() == "attention" {
            let scores = x[0].times(x[1]).summed(site.size(1));
            let most = scores.most() + site.size(1).ln();
            made[1] = Range::new(-most, most, scores.error + ROUNDING * site.size(1));
        }
        if site.name() == "top_k" {
            made[1] = x[0].jumps(Range { low: 0.0, high: site.longest(), error: 0.0 });
        }
        made
    })
}

/// A bound of the error of each of these tensors; `None` if there is none, or it is too large.
pub fn errors(graph: &Graph, tensors: &[TensorId]) -> Vec<Option<f64>> {
    let ranges = ranges(graph);
    let error = |id: &TensorId| {
        let range = ranges[id];
        let known = range.error <= ERROR_MOST && range.most() <= MAGNITUDE_MOST;
        known.then_some(range.error)
    };
    tensors.iter().map(error).collect()
}

/// The tensors that a pick adds to the pool, as far as their error is known.
pub fn drawn<'g>(d: &Draw<'g>) -> Vec<Tensor<'g>> {
    let made = OPS[usize::from(d.pick.op) % OPS.len()](d).unwrap_or_default();
    let fits = |x: &Tensor<'g>| x.is_poisoned() || errors(d.graph, &[x.id()])[0].is_some();
    made.into_iter().filter(fits).collect()
}
