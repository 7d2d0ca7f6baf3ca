//! `scatter(x, updates, indices, dim, how)`: x with updates put in at positions along a dim that are computed:
//! the last, the sum, the greatest, the least or the product. `segment_sum` and `segment_max` are of updates alone.
//!
//! Compositions of `scatter_add` and its like, `scatter_max`, `scatter_min` and `scatter_mul`: the work is one step
//! for each update, any dim may be split, and the gradients fall out. What is set is the update of the greatest
//! number among those of a position.

use crate::elementwise::{equal, less, maximum, minimum, mul, select};
use crate::gather::gather_onto;
use crate::room::*;
use crate::scatter_add::{check_updates, scatter_fold};

/// What an update does to the element that it meets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scatter {
    /// It takes its place; of several the last, in the order of the updates' dims.
    Set,
    /// It is added.
    Add,
    /// The greater one stays; of equal ones each has a part of the gradient.
    Max,
    /// The lesser one stays; of equal ones each has a part of the gradient.
    Min,
    /// It is multiplied. Its gradients are right also where updates are 0; the gradient of the gradient looks at
    /// every pair of updates.
    Mul,
}

/// `x` with `updates` put in along `dim`, at the positions that `indices` (i32) says. Dims of `updates` that `x`
/// lacks are those of the updates; they and `indices` are as for [`scatter_add`](crate::scatter_add), and an index
/// outside `0..dim.size` does nothing. As `x.at[indices].set`, `add`, `max`, `min`, `multiply` in JAX.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::{Scatter, scatter};
/// # let g = mesh_ops::graph();
/// let (words, width, length) = (dim("words", 10), dim("width", 8), dim("length", 5));
/// let x = g.input("x", [words, width], F32);
/// let updates = g.input("updates", [length, width], F32);
/// let text = g.input("text", [length], I32);
/// assert_eq!(scatter(x, updates, text, words, Scatter::Max).shape(), x.shape());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn scatter<'g>(
    x: Tensor<'g>,
    updates: Tensor<'g>,
    indices: Tensor<'g>,
    dim: Dimension,
    how: Scatter,
) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    if let Some(problem) = lacking(x, dim) {
        x.graph().record("scatter", problem);
        return x.poisoned();
    }
    if updates.is_poisoned() || indices.is_poisoned() || x.is_poisoned() {
        return x.poisoned();
    }
    let kept = x.shape();
    let types = [updates.tensor_type(), indices.tensor_type()];
    if let Err(error) = check_updates("scatter", types.each_ref(), dim.name, &kept) {
        x.graph().record("scatter", error.to_string());
        return x.poisoned();
    }
    let folded = |kind| scatter_fold(kind, updates, indices, dim, &kept);
    let made = match how {
        Scatter::Add => x + folded(ReduceKind::Sum),
        Scatter::Max => maximum(x, folded(ReduceKind::Max)),
        Scatter::Min => minimum(x, folded(ReduceKind::Min)),
        Scatter::Mul => mul(x, folded(ReduceKind::Prod)),
        Scatter::Set => set(x, updates, indices, dim),
    };
    crate::transpose(made, kept)
}

/// `x` with the last of the updates of each position.
#[track_caller]
fn set<'g>(x: Tensor<'g>, updates: Tensor<'g>, indices: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let (graph, kept, of_index) = (x.graph(), x.shape(), indices.shape());
    // The number of each update in the order of the dims that it has alone.
    let alone = updates.shape().iter().filter(|d| !kept.contains(d.name)).collect::<Vec<_>>();
    let mut number = graph.scalar(0.0, DType::I32);
    for &dim in &alone {
        number = number * (dim.size as f64) + crate::range(graph, dim, DType::I32);
    }
    let beside = of_index.iter().filter(|d| !alone.contains(d)).collect::<Vec<_>>();
    let Ok(numbered) = Shape::new(alone.iter().chain(&beside).copied()) else {
        return x.poisoned();
    };
    let number = crate::broadcast(number, &numbered);
    let onto = std::iter::once(dim).chain(beside);
    let last = scatter_fold(ReduceKind::Max, number, indices, dim, onto);
    let put = match alone[..] {
        [one] => gather_onto(updates, last, one, kept),
        // They cannot be looked up by one number.
        _ => {
            let is_last = equal(number, crate::gather(last, indices, dim));
            crate::scatter_add(select(is_last, updates, 0), indices, dim, &kept)
        }
    };
    select(less(last, 0), x, put)
}

/// The sum of the elements of each segment along `dim`: element i of `x` belongs to the segment `ids[i]` (i32),
/// one of as many as `segments` has positions. As `jax.ops.segment_sum`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (n, d) = (dim("n", 10), dim("d", 3));
/// let (x, ids) = (g.input("x", [n, d], F32), g.input("ids", [n], I32));
/// let sums = mesh_ops::segment_sum(x, ids, n, dim("segments", 4));
/// assert_eq!(sums.shape().to_string(), "[segments:4, d:3]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn segment_sum<'g>(
    x: Tensor<'g>,
    ids: Tensor<'g>,
    dim: Dimension,
    segments: Dimension,
) -> Tensor<'g> {
    match of_segments("segment_sum", x, dim, segments) {
        Some(shape) => crate::scatter_add(x, ids, segments, &shape),
        None => x.poisoned(),
    }
}

/// As [`segment_sum`], the greatest element of each segment; of a segment without elements minus infinity, or the
/// least i32. As `jax.ops.segment_max`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (n, d) = (dim("n", 10), dim("d", 3));
/// let (x, ids) = (g.input("x", [n, d], F32), g.input("ids", [n], I32));
/// let most = mesh_ops::segment_max(x, ids, n, dim("segments", 4));
/// assert_eq!(most.shape().to_string(), "[segments:4, d:3]");
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn segment_max<'g>(
    x: Tensor<'g>,
    ids: Tensor<'g>,
    dim: Dimension,
    segments: Dimension,
) -> Tensor<'g> {
    match of_segments("segment_max", x, dim, segments) {
        Some(shape) => scatter_fold(ReduceKind::Max, x, ids, segments, &shape),
        None => x.poisoned(),
    }
}

/// The dims of `x` with the segments in the place of a dim.
#[track_caller]
fn of_segments(op: &str, x: Tensor<'_>, dim: Dimension, segments: Dimension) -> Option<Shape> {
    if x.is_poisoned() {
        return None;
    }
    let shape = x.shape();
    let made = Shape::new(shape.iter().map(|d| if d == dim { segments } else { d }));
    match (lacking(x, dim), made) {
        (None, Ok(made)) => return Some(made),
        (Some(problem), _) => x.graph().record(op, problem),
        (None, Err(error)) => x.graph().record(op, error.to_string()),
    }
    None
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::gather::proof::OUTSIDE;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            let ids = Fill::Values(vec![2.0, 0.0, 2.0, 3.0, -1.0, 0.0]);
            vec![
                put("scatter", Scatter::Set, |_, update| update),
                put("scatter: add", Scatter::Add, |x, update| x + update),
                put("scatter: max", Scatter::Max, f64::max),
                put("scatter: min", Scatter::Min, f64::min),
                put("scatter: mul", Scatter::Mul, |x, update| x * update),
                // Of one position one update is 0, of another two are.
                Case::new("scatter: mul, by zeros", |_, x| {
                    scatter(x[0], x[1], x[2], dim("vocab", 4), Scatter::Mul)
                })
                .computes(|x, ty| put_in(x, ty, |x, update| x * update))
                .input("x", "vocab:4;width:2", F64, Fill::Distinct)
                .input("updates", "batch:8;width:2", F64, Fill::Values(ZEROS.to_vec()))
                .input(
                    "at",
                    "batch:8",
                    I32,
                    Fill::Values(vec![3.0, 3.0, 3.0, 0.0, 0.0, 0.0, 2.0, 4.0]),
                )
                .meshes(FEW),
                Case::new("scatter: set, of two dims", |_, x| {
                    scatter(x[0], x[1], x[2], dim("vocab", 12), Scatter::Set)
                })
                .computes(|x, ty| {
                    Dense::each(ty, |at| {
                        let updates = (0..2).flat_map(|i| (0..4).map(move |j| (i, j)));
                        let mut updates =
                            updates.map(|(i, j)| at.with("length", i).with("batch", j));
                        let own = |i: &At| x[2].at(i) == at.along("vocab") as f64;
                        updates.rfind(own).map_or(x[0].at(at), |i| x[1].at(&i))
                    })
                })
                .input("x", "vocab:12;width:2", F64, Fill::Distinct)
                .input("updates", "length:2;batch:4;width:2", F64, Fill::Between(0.5, 1.5))
                .input("at", "batch:4;length:2", I32, OUTSIDE)
                .meshes(FEW),
                Case::new("scatter: i32, one index", |_, x| {
                    scatter(x[0], x[1], x[2], dim("vocab", 12), Scatter::Max)
                })
                .computes(|x, ty| put_in(x, ty, f64::max))
                .integers("x", "vocab:12;width:2", I32)
                .integers("updates", "batch:4;width:2", I32)
                .input("at", "batch:4", I32, OUTSIDE)
                .meshes(FEW),
                Case::new("segment_sum", |_, x| segment_sum(x[0], x[1], dim("n", 6), dim("s", 4)))
                    .computes(|x, ty| of_each(x, ty, 0.0, |a, b| a + b))
                    .exact()
                    .integers("x", "n:6;p:2", F32)
                    .input("ids", "n:6", I32, ids.clone())
                    .meshes(FEW),
                Case::new("segment_max", |_, x| segment_max(x[0], x[1], dim("n", 6), dim("s", 4)))
                    .computes(|x, ty| of_each(x, ty, f64::NEG_INFINITY, f64::max))
                    .without_gradient()
                    .input("x", "n:6;p:2", F32, Fill::Distinct)
                    .input("ids", "n:6", I32, ids)
                    .meshes(FEW),
            ]
        },
    };

    /// Updates of two columns: those of position 3, of position 0, of 2, of none.
    const ZEROS: [f64; 16] =
        [0.0, 1.5, 2.0, -0.5, 0.75, 1.25, 0.0, 2.0, 0.0, 0.0, 1.5, -1.0, 0.0, 0.5, 0.0, 2.0];

    fn put(name: &str, how: Scatter, next: fn(f64, f64) -> f64) -> Case {
        Case::new(name, move |_, x| scatter(x[0], x[1], x[2], dim("vocab", 12), how))
            .computes(move |x, ty| put_in(x, ty, next))
            .input("x", "vocab:12;width:2", F64, Fill::Distinct)
            .input("updates", "batch:4;width:2", F64, Fill::Between(0.5, 1.5))
            .input("at", "batch:4", I32, Fill::Values(vec![3.0, 12.0, 3.0, 0.0]))
            .meshes(FEW)
    }

    /// One update after another.
    fn put_in(x: &[&Dense], ty: &TensorType, next: fn(f64, f64) -> f64) -> Dense {
        Dense::each(ty, |at| {
            let count = extent(&x[1].ty.shape, "batch".into());
            let updates = (0..count).map(|i| at.with("batch", i));
            let own = updates.filter(|i| x[2].at(i) == at.along("vocab") as f64);
            own.fold(x[0].at(at), |element, i| next(element, x[1].at(&i)))
        })
    }

    fn of_each(x: &[&Dense], ty: &TensorType, start: f64, next: fn(f64, f64) -> f64) -> Dense {
        Dense::each(ty, |at| {
            let all = (0..6).map(|i| at.with("n", i));
            let own = all.filter(|i| x[1].at(i) == at.along("s") as f64);
            own.fold(start, |sum, i| next(sum, x[0].at(&i)))
        })
    }
}
