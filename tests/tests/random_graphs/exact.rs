//! Random graphs of whole numbers.
//!
//! Each tensor has a bound on the sum of the absolute values of the products that add up to any of
//! its elements; partial sums are below it as well. While the bound is at most 2^24, f32 is exact
//! in any order of additions.

use crate::bounds::{Known, Site, propagate};
use crate::handed;
use crate::rearranged;
use crate::recipe::{Draw, Drawn, SMALL, one};
use mesh_core::graph::{Graph, Kind, TensorId};
use mesh_ops::conv::{Conv, Padding};
use mesh_ops::elementwise::*;
use mesh_ops::pool::{Pool, max_pool};
use mesh_ops::prelude::*;
use mesh_ops::{Cumulative, Order};
use std::collections::BTreeMap;

pub const INPUT_BOUND: i32 = 2;
const EXACT_MOST: f64 = 16_777_216.0;

/// The longest dim that a loop goes over.
pub const ROUNDS_MOST: usize = 6;

/// The drawing functions of exact ops.
pub const OPS: &[Drawn] = &[
    |d| one(d.a + d.alike()?),
    |d| one(d.a - d.alike()?),
    |d| one(d.a * d.alike()?),
    |d| one(d.a * d.alike()?),
    |d| d.is_float().then(|| vec![d.a.relu()]),
    |d| one(-d.a),
    |d| one(d.a.sum(d.some_dims())),
    |d| one(d.a.sum(d.some_dims())),
    |d| one(d.choice(d.a).max(d.some_dims())),
    |d| one(d.choice(d.a).min(d.some_dims())),
    |d| one(d.choice(d.a).prod(d.some_dims())),
    |d| one(d.a.einsum(&[d.alike()?], d.some_of(&d.all()))),
    |d| one(d.a.einsum(&[d.alike()?], d.some_of(&d.all()))),
    |d| one(d.a.einsum(&[d.alike()?], d.some_of(&d.all()))),
    |d| {
        let wide = d.sizes.shape(d.pick.dims).union(&d.a.shape()).unwrap();
        d.fits(&wide).then(|| vec![d.a.broadcast(&wide)])
    },
    |d| {
        let mut order: Vec<_> = d.a.shape().iter().collect();
        let by = usize::from(d.pick.dims) % order.len().max(1);
        order.rotate_left(by);
        one(d.a.transpose(order))
    },
    |d| one(d.a.cast(if d.is_float() { I32 } else { F32 })),
    |d| {
        let tests = [greater, less_equal, less, greater_equal, equal, not_equal];
        let test = tests[usize::from(d.pick.dims) % tests.len()];
        one(test(d.a, d.alike()?).cast(F32))
    },
    |d| {
        let b = d.alike()?;
        let (low, high) = (d.a.less(b), d.a.cast(Bool));
        let joins = [logical_and, logical_or, logical_xor];
        let join = joins[usize::from(d.pick.dims) % joins.len()];
        one(join(logical_not(low), high).cast(F32))
    },
    |d| {
        let test = d.a.greater(d.a.fill_like(0.0));
        let dims = d.some_dims();
        one(if d.heads() { test.all(dims) } else { test.any(dims) }.cast(I32))
    },
    |d| one(maximum(d.choice(d.a), d.choice(d.alike()?))),
    |d| one(minimum(d.choice(d.a), d.choice(d.alike()?))),
    |d| one(abs(d.a)),
    |d| one(if d.heads() { d.a.square() } else { d.a.sign() }),
    |d| {
        let x = d.a.cast(F32);
        let flat = [floor, ceil, round, trunc][usize::from(d.pick.dims) % 4];
        one(if d.heads() { x.clip(-2.0, 3.0) } else { flat(x) })
    },
    |d| {
        let (a, b) = (d.a.cast(I32), d.alike()?.cast(I32));
        let by = d.graph.scalar(f64::from(d.pick.b % 3), I32);
        one(match d.pick.dims % 6 {
            0 => bit_and(a, b),
            1 => bit_or(a, b),
            2 => bit_xor(a, b),
            3 => bit_not(a),
            4 => shift_left(a, by),
            _ => shift_right(a, by),
        })
    },
    |d| {
        let (along, folds) = (d.dim()?, [mesh_ops::cumprod, mesh_ops::cummax, mesh_ops::cummin]);
        one(folds[usize::from(d.pick.b) % folds.len()](d.choice(d.a), along))
    },
    |d| {
        let two = d.graph.scalar(if d.heads() { 2.0 } else { -3.0 }, d.a.dtype());
        one(if d.pick.dims.is_multiple_of(2) { d.a.floordiv(two) } else { d.a.modulo(two) })
    },
    |d| {
        let b = d.alike()?;
        one(select(d.a.greater(b), b, d.a))
    },
    |d| one(mesh_ops::shift(d.a, d.dim()?, i64::from(d.pick.b % 16) - 8, d.heads())),
    rearranged::shapes,
    rearranged::shapes,
    rearranged::scattered,
    rearranged::scattered,
    rearranged::kept,
    rearranged::searched,
    rearranged::scanned,
    |d| {
        // Cuts the dim in two and swaps the parts.
        let (along, cut) = d.cut()?;
        let parts = mesh_ops::split(d.a, along, [cut, along.size - cut]);
        one(mesh_ops::concat(parts[1], &[parts[0]], along.name))
    },
    |d| {
        // Replaces the end by zeros, or the beginning.
        let (along, cut) = d.cut()?;
        let kept = along.resized(along.size - cut);
        let (begin, low) = if d.heads() { (0, 0) } else { (cut, cut) };
        one(mesh_ops::pad(mesh_ops::slice(d.a, kept, begin), kept, low, cut - low))
    },
    |d| {
        let (along, cut) = d.cut()?;
        d.resized(mesh_ops::slice(d.a, along.resized(cut), 0), along).and_then(one)
    },
    |d| {
        // Flattens and restores the dims, with an op in between.
        let flat = [dim(&format!("flat{}", d.a.shape().size()), d.a.shape().size())];
        let there = mesh_ops::reshape(d.a, flat);
        one(mesh_ops::reshape(there + there.sum(flat), d.a.shape()))
    },
    |d| {
        let both = d.a.shape().size() * 2 <= d.sizes.most && !d.a.shape().contains("pair".into());
        both.then(|| vec![d.a.stack(&[-d.a], "pair")])
    },
    |d| {
        // Sums over all dims, over one, and over none, which are pending over different axes.
        let along = d.dim()?;
        let parts = [d.a.sum([along]), d.a.pick(along, 0), d.a.sum_all()];
        one(mesh_ops::add_n(d.a.sum_all(), &parts))
    },
    |d| {
        let along = d.dim()?;
        one(d.a.pick(along, usize::from(d.pick.b) % along.size))
    },
    |d| {
        let along = d.dim()?;
        let found = mesh_ops::gather(d.a, d.indices(along), along);
        d.fits(&found.shape()).then(|| vec![found])
    },
    |d| {
        let (along, new) = (d.dim()?, d.other_dim()?);
        let own: Vec<_> = d.b.shape().iter().filter(|x| d.a.shape().contains(x.name)).collect();
        let away: Vec<_> = d.b.shape().iter().filter(|x| !own.contains(x)).collect();
        let kept = d.a.shape().without(&[along.name]);
        let onto = kept.iter().chain([new]);
        one(mesh_ops::scatter_add(d.a, d.b.max(away).cast(I32), new, onto))
    },
    |d| one(d.indices(d.other_dim()?).one_hot(d.other_dim()?, d.a.dtype())),
    |d| {
        let taken = Cumulative { exclusive: d.heads(), reverse: d.pick.b.is_multiple_of(2) };
        one(d.a.cumsum_with(d.dim()?, taken))
    },
    |d| {
        let (along, k) = d.cut()?;
        let kept = dim(&format!("kept{k}"), k);
        let fits = !d.a.shape().contains(kept.name);
        fits.then(|| d.a.top_k(along, kept)).map(|(values, indices)| vec![values, indices])
    },
    |d| {
        let (along, orders) = (d.dim()?, [Order::Ascending, Order::Descending]);
        let order = orders[usize::from(d.pick.b) % 2];
        one(if d.heads() { d.a.sort(along, order) } else { d.a.argsort(along, order) })
    },
    |d| {
        let (along, n) = d.cut()?;
        one(if d.heads() { d.a.argmax(along) } else { d.a.nth_smallest(n, along) })
    },
    |d| one(mesh_ops::dynamic_shift(d.a, d.b.max(d.b.shape()).cast(I32), d.dim()?, d.heads())),
    |d| one(d.a.reverse(d.dim()?)),
    |d| {
        // A filter of three whole numbers, and its gradient.
        let (along, taps) = (d.dim()?, dim("taps", 3));
        let filter = mesh_ops::range(d.graph, taps, I32).cast(d.a.dtype()) - 1.0;
        let scale = d.alike()?;
        let filter = filter * scale.pick_all();
        let conv = Conv::over([(along.name, "taps")]);
        one(mesh_ops::conv::conv(d.a, filter, &conv))
    },
    |d| {
        let along = d.dim().filter(|d| d.size >= 4)?;
        let filter = mesh_ops::range(d.graph, dim("taps", 2), I32).cast(d.a.dtype());
        let conv = Conv::over([(along.name, "taps")]).strides([2]).padding(Padding::Valid);
        let (x, f) = (d.a, filter + 1.0);
        if d.heads() {
            return d.resized(mesh_ops::conv::conv(x, f, &conv), along).and_then(one);
        }
        let wide = x.shape().size() * 2 <= d.sizes.most;
        wide.then(|| mesh_ops::conv::conv_transpose(x, f, &conv))
            .and_then(|y| d.resized(y, along))
            .and_then(one)
    },
    |d| {
        let along = d.dim().filter(|d| d.size >= 4)?;
        let (window, pads) = (dim("window", 3), [usize::from(d.heads()), 2]);
        let stride = 1 + usize::from(d.pick.b) % 3;
        if d.a.shape().size() * 3 > d.sizes.most {
            return None;
        }
        let frames = mesh_ops::windows(d.a, along, window, stride, pads);
        one(mesh_ops::overlap_add(frames, along, window, stride, pads))
    },
    |d| {
        // What pooling means is told window by window, which takes minutes for large tensors.
        let is_small = d.a.shape().size() <= SMALL.most;
        let along = d.dim().filter(|d| d.size >= 4 && is_small)?;
        let pool = Pool::over([(along.name, 2 + usize::from(d.pick.b) % 2)]);
        let pool = if d.heads() { pool.strides([1]) } else { pool };
        d.resized(max_pool(d.choice(d.a), &pool), along).and_then(one)
    },
    |d| one(mesh_ops::random::dropout_over(d.a, 0.5, d.some_dims())),
    |d| {
        let noise = mesh_ops::random::random_integer(d.graph, d.some_dims(), -3, 4);
        one(d.a + noise.cast(d.a.dtype()))
    },
    |d| {
        // Each iteration adds its slice, weighted by a captured tensor.
        let along = d.dim().filter(|d| d.size <= ROUNDS_MOST)?;
        let weight =
            d.alike().filter(|b| b.shape().rank() == 0).unwrap_or(d.a.fill_like(1.0).pick_all());
        let first = d.a.sum([along]);
        let (last, stacks) = d
            .graph
            .scan_lists(along, &[first], &[d.a], |h, x| (vec![h[0] + x[0] * weight], vec![h[0]]));
        Some(vec![last[0], stacks[0]])
    },
    |d| {
        let along = d.dim().filter(|d| d.size <= ROUNDS_MOST)?;
        Some(d.graph.sum_over(along, &[d.a], |x| vec![x[0].relu_like(), x[0].sum_all()]))
    },
    handed::on,
    handed::on,
    |d| {
        let zero = d.graph.scalar(0.0, I32);
        let (a, dtype) = (d.a, d.a.dtype());
        let [_, total, x] = d.graph.while_loop(
            [zero, d.graph.scalar(1.0, dtype), a],
            |[i, _, _]| i.less(d.graph.scalar(3.0, I32)),
            |[i, total, x]| [i + 1.0, total + x.sum_all(), x + total],
        );
        Some(vec![d.choice(total), d.choice(x)])
    },
    |d| {
        let b = d.alike()?;
        let [y] = d.graph.recompute([d.a], |[a]| [(a + b) * 2.0 - a]);
        one(y.depend(&[d.b]))
    },
];

/// Short forms for the table.
trait Short {
    /// The first element.
    fn pick_all(self) -> Self;
    /// `max(x, 0)`, of any number.
    fn relu_like(self) -> Self;
}

impl Short for Tensor<'_> {
    fn pick_all(self) -> Self {
        self.shape().iter().fold(self, |x, d| x.pick(d, 0))
    }

    fn relu_like(self) -> Self {
        if self.dtype().is_float() { self.relu() } else { abs(self) }
    }
}

impl Known for f64 {
    fn either(self, other: Self) -> Self {
        self.max(other)
    }

    fn position(rounds: usize) -> Self {
        rounds as f64
    }

    fn zero() -> Self {
        0.0
    }
}

/// The bound of every tensor; infinity for a tensor that is not whole.
fn bounds(graph: &Graph) -> BTreeMap<TensorId, f64> {
    propagate(graph, |site: &Site<'_>, x: &[f64]| {
        let greatest = x.iter().fold(0.0, |most: f64, &x| most.max(x));
        let bound = match (&site.operation.kind, site.name()) {
            (Kind::Input(_) | Kind::Read(_), _) => f64::from(INPUT_BOUND),
            (Kind::Fill(value), _) if value.fract() == 0.0 => value.abs(),
            (Kind::Update(_), _) => 0.0,
            (Kind::Identity, _) => return x[..site.operation.outputs.len()].to_vec(),
            (_, "add" | "sub" | "assign_add" | "assign_sub") => x[0] + x[1],
            (_, "add_n") => x.iter().sum(),
            (_, "mul") => x[0] * x[1],
            (_, "square") => x[0] * x[0],
            (_, "einsum" | "einsum_filled") => x[0] * x[1] * site.terms(),
            (_, "sum") => x[0] * site.terms(),
            (_, "prod") => x[0].max(1.0).powf(site.terms()),
            (_, "cumsum") => x[0] * site.longest(),
            (_, "linear_recurrence") => {
                (1..site.longest() as usize).fold(x[1], |state, _| x[0].max(1.0) * state + x[1])
            }
            (_, "cumprod") => x[0].max(1.0).powf(site.longest()),
            // Bits below the next power of two.
            (_, "bit_and" | "bit_or" | "bit_xor" | "bit_not") => 2.0 * (greatest + 1.0),
            (_, "shift_left") => x[0] * x[1].exp2(),
            (_, "shift_right") => x[0].max(1.0),
            (_, "scatter_add") => x[0] * site.size(0),
            (_, "overlap_add") => x[0] * site.gone(),
            (_, "conv" | "conv_filter") => x[0] * x[1] * site.size(1),
            (_, "conv_image") => x[0] * x[1] * site.size(0),
            (_, "scatter_mul") => x[0].max(1.0).powf(site.size(0)),
            (_, "searchsorted") => site.longest(),
            (_, "top_k") => return vec![x[0], site.longest()],
            (_, "floordiv") => x[0] + 1.0,
            (_, "modulo") => x[1],
            (_, "dropout") => 2.0 * x[0],
            (_, "range") => site.output.size() as f64,
            (_, "random_uniform") => 4.0,
            (_, "clip") => greatest.max(3.0),
            (_, "equal" | "not_equal" | "greater" | "greater_equal" | "less" | "less_equal")
            | (_, "logical_and" | "logical_or" | "logical_xor" | "logical_not" | "all" | "any")
            | (_, "sign") => 1.0,
            (_, "neg" | "relu" | "relu_gradient" | "max" | "min" | "broadcast" | "transpose")
            | (_, "cast" | "maximum" | "minimum" | "abs" | "select" | "select_gradient")
            | (_, "update_at" | "shift" | "slice" | "concat" | "pad" | "reshape" | "clip_gradient")
            | (_, "reverse")
            // Where nothing comes they are infinite; who draws them takes that away.
            | (_, "scatter_max" | "scatter_min")
            | (_, "floor" | "ceil" | "round" | "trunc" | "cummax" | "cummin")
            | (_, "gather" | "pick" | "windows" | "stack" | "max_pool") => greatest,
            (_, "max_pool_count") => site.longest(),
            _ => f64::INFINITY,
        };
        vec![bound; site.operation.outputs.len()]
    })
}

/// Whether every tensor on the way to this one is exact.
pub fn exact(graph: &Graph, tensor: TensorId) -> bool {
    let bounds = bounds(graph);
    let mut needed = vec![tensor];
    graph.operations().iter().rev().all(|operation| {
        if !operation.outputs.iter().any(|t| needed.contains(t)) {
            return true;
        }
        needed.extend(&operation.inputs);
        if let Kind::Loop(l) = &operation.kind {
            needed.extend(&l.results);
        }
        operation.outputs.iter().all(|t| bounds[t] <= EXACT_MOST)
    })
}

/// The tensors that a pick adds to the pool, as far as they are exact.
pub fn drawn<'g>(d: &Draw<'g>) -> Vec<Tensor<'g>> {
    let made = OPS[usize::from(d.pick.op) % OPS.len()](d).unwrap_or_default();
    let fits = |x: &Tensor<'g>| x.is_poisoned() || exact(d.graph, x.id());
    made.into_iter().filter(fits).collect()
}
