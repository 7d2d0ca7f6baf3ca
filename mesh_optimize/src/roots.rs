//! Roots and eigenvectors of symmetric matrices, by products alone.
//!
//! A symmetric matrix has the dims of a *side*, and the same under other names; what else it has counts
//! matrices. What is computed here is computed on all of a matrix, whose dims have names of their own
//! meanwhile: it is brought together once, not in every product.

use crate::Schedule;
use crate::matrices::{count, others, renamed};
use mesh_core::graph::Tensor;
use mesh_core::names::{DType, Dimension, dim};
use mesh_ops::einsum::contract;
use mesh_ops::elementwise::{
    abs, cast, equal, greater, less, logical_and, powf, select, sqrt, square,
};
use mesh_ops::reduce::{max, sum};
use mesh_ops::{merge_dims, range, replace_dims};

/// The most rounds of Newton's iteration. An eigenvalue that is small beside the norm grows to 2.4 times in
/// a round, and the last five double the digits: 45 rounds suffice for one of 1e-15.
const ROUNDS: f64 = 45.0;
/// The part of the norm that is added to a matrix before a power iteration: the vectors stay the same, and
/// no column of the product is lost where the matrix has not its full rank.
const SHIFT: f64 = 1e-5;
/// Keeps the norm of a zero matrix from being divided by.
const TINY: f64 = 1e-30;

/// The identity, like a symmetric matrix.
pub(crate) fn identity<'g>(like: Tensor<'g>, side: &[Dimension]) -> Tensor<'g> {
    let counted = |dim| range(like.graph(), dim, DType::I32);
    let pairs = side.iter().zip(others(side, "other"));
    let same = pairs.map(|(&one, other)| cast(equal(counted(one), counted(other)), like.dtype()));
    let all = same.reduce(|all, one| all * one).unwrap_or(like);
    like.key().map_or(all, |key| all.relayout(key))
}

/// The rows of square matrices as their columns.
pub(crate) fn transposed<'g>(a: Tensor<'g>, side: &[Dimension]) -> Tensor<'g> {
    renamed(a, &both(side), &[&others(side, "other")[..], side].concat())
}

/// The product of symmetric matrices that commute.
fn times<'g>(a: Tensor<'g>, b: Tensor<'g>, side: &[Dimension]) -> Tensor<'g> {
    let (other, third) = (others(side, "other"), others(side, "third"));
    renamed(contract(a, &[renamed(b, side, &third)], other.iter().copied()), &third, &other)
}

fn norm<'g>(a: Tensor<'g>, side: &[Dimension]) -> Tensor<'g> {
    sqrt(sum(square(a), both(side)))
}

/// The dims of a symmetric matrix.
fn both(side: &[Dimension]) -> Vec<Dimension> {
    [side, &others(side, "other")].concat()
}

/// (A + epsilon I)^(-1/p) of a matrix without negative eigenvalues, where `due`, a bool without dims, holds;
/// elsewhere anything. p is a power of two.
///
/// The coupled Newton iteration of Iannazzo 2006 ("On the Newton method for the matrix pth root"), as in
/// Anil et al. 2021 (arXiv 2002.09018, algorithm 2): from M = z A and H = z^(1/p), z = (p + 1) / (2 |A|),
///
/// ```text
/// T = ((p + 1) I - M) / p         M <- T^p M         H <- H T
/// ```
///
/// until no element of M - I is larger than what rounding leaves.
pub(crate) fn inverse_root<'g>(
    a: Tensor<'g>,
    side: &[Dimension],
    p: u32,
    epsilon: &Schedule,
    due: Tensor<'g>,
) -> Tensor<'g> {
    let (graph, power, rows) = (a.graph(), f64::from(p), others(side, "row"));
    let given = renamed(a, &both(side), &both(&rows));
    let eye = identity(given, &rows);
    let whole = given + eye * epsilon;
    let z = (power + 1.0) / 2.0 / (norm(whole, &rows) + TINY);
    let start = [whole * z, eye * powf(z, 1.0 / power), graph.scalar(0.0, DType::I32)];
    let least = if a.dtype() == DType::F64 { 1e-11 } else { 1e-5 };
    let again = |[m, _, round]: [Tensor<'g>; 3]| {
        let gap = max(abs(m - eye), m.shape().iter());
        let open = greater(gap, gap.scalar_like(least));
        logical_and(logical_and(due, open), less(round, round.scalar_like(ROUNDS)))
    };
    let [_, root, _] = graph.while_loop(start, again, |[m, h, round]| {
        let t = (eye * (power + 1.0) - m) * (1.0 / power);
        let raised = (0..p.ilog2()).fold(t, |t, _| times(t, t, &rows));
        [times(raised, m, &rows), times(h, t, &rows), round + 1.0]
    });
    renamed(root, &both(&rows), &both(side))
}

/// Nearer to the eigenvectors of A than `vectors`, where `due`, a bool without dims, holds; elsewhere
/// `vectors`. They are columns, numbered by the other dims.
///
/// One power iteration, the Q of the product of A and `vectors`, as in Vyas et al. 2024 (arXiv 2409.11321,
/// algorithm 4). Q is that of a QR decomposition whose R has a positive diagonal, by the method of Gram and
/// Schmidt, which is done twice, so that columns are orthogonal up to rounding (Giraud et al. 2005).
pub(crate) fn turned<'g>(
    a: Tensor<'g>,
    vectors: Tensor<'g>,
    side: &[Dimension],
    due: Tensor<'g>,
) -> Tensor<'g> {
    let (graph, rows, other) = (a.graph(), others(side, "row"), others(side, "other"));
    let (column, made) = (dim("column", count(side)), dim("made", count(side)));
    let third = others(side, "third");
    let factor = renamed(vectors, &both(side), &[&other[..], &third].concat());
    let product =
        renamed(contract(a / (norm(a, side) + TINY), &[factor], other.clone()), &third, &other);
    let shifted = renamed(product + vectors * SHIFT, &both(side), &both(&rows));
    let columns = merge_dims(shifted, others(&rows, "other"), "column");
    let places = renamed(identity(columns, &[column]), &others(&[column], "other"), &[made]);
    let start =
        [renamed(columns, &[column], &[made]).fill_like(0.0), graph.scalar(0.0, DType::I32)];
    let again = |[_, turn]: [Tensor<'g>; 2]| logical_and(due, less(turn, turn.scalar_like(1.0)));
    let [found, _] = graph.while_loop(start, again, |[found, turn]| {
        let ([found], []) = graph.scan(column, [found], [columns, places], |[q], [v, place]| {
            let apart = |v: Tensor<'g>| v - contract(q, &[contract(q, &[v], rows.clone())], [made]);
            let v = apart(apart(v));
            ([q + v / sqrt(sum(square(v), rows.clone())) * place], [])
        });
        [found, turn + 1.0]
    });
    let found = replace_dims(found, [made], others(&rows, "other"));
    select(due, renamed(found, &both(&rows), &both(side)), vectors)
}
