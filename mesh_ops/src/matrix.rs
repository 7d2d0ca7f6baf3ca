//! Diagonals and triangles of two dims: `eye`, `diag`, `diagonal`, `tril`, `triu`.
//!
//! Compositions of comparisons of the two indices, and a gather at the row's index, so every dim may be split; the
//! gradients fall out. Diagonal k is where the column's index less the row's is k.

use crate::elementwise::{cast, equal, greater_equal, less_equal, select};
use crate::room::*;
use mesh_core::graph::Graph;

/// Where diagonal `k` has its column in each row, which may be outside.
#[track_caller]
fn diagonal_of(graph: &Graph, rows: Dimension, k: i32) -> Tensor<'_> {
    crate::range(graph, rows, DType::I32) + graph.scalar(f64::from(k), DType::I32)
}

/// Ones on diagonal `k`, zeros elsewhere; of bools, true and false. As `jnp.eye`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let unit = mesh_ops::eye(&g, dim("i", 3), dim("j", 3), 0, F32);
/// assert_eq!(unit.shape().to_string(), "[i:3, j:3]");
/// ```
#[track_caller]
pub fn eye(graph: &Graph, rows: Dimension, columns: Dimension, k: i32, dtype: DType) -> Tensor<'_> {
    let all = crate::range(graph, columns, DType::I32);
    cast(equal(diagonal_of(graph, rows, k), all), dtype)
}

/// A matrix with `x` on its diagonal along `dim` and the new dim `columns`, and zeros elsewhere. As `jnp.diag`
/// and `torch.diag` of a vector, and `torch.diag_embed`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("i", 3)], F32);
/// assert_eq!(mesh_ops::diag(x, dim("i", 3), "j").shape().to_string(), "[i:3, j:3]");
/// ```
#[track_caller]
pub fn diag<'g>(x: Tensor<'g>, dim: Dimension, columns: &str) -> Tensor<'g> {
    let taken = x.shape().contains(DimName::new(columns));
    let taken = taken.then(|| format!("{x:?} has a dim {columns} already"));
    if let Some(problem) = lacking(x, dim).or(taken).filter(|_| !x.is_poisoned()) {
        x.graph().record("diag", problem);
        return x.poisoned();
    }
    if x.is_poisoned() {
        return x;
    }
    let columns = dim.renamed(columns);
    let own = x.shape();
    let beside = |d: Dimension| [Some(d), Some(columns).filter(|_| d == dim)];
    match Shape::new(own.iter().flat_map(beside).flatten()) {
        Ok(shape) => {
            let _caller = x.graph().for_caller();
            // What `select` makes of it would look at the whole matrix again.
            let [made] = x.graph().custom_gradient(
                [x],
                move |[x]| {
                    let all = crate::range(x.graph(), columns, DType::I32);
                    let on = equal(crate::range(x.graph(), dim, DType::I32), all);
                    [select(crate::broadcast(on, &shape), x, x.scalar_like(0.0))]
                },
                move |cx| {
                    let (dy, own) = (cx.dy(), cx.input(0).shape());
                    let at = crate::range(dy.graph(), dim, DType::I32);
                    vec![Some(crate::gather::gather_onto(dy, at, columns, own))]
                },
            );
            made
        }
        Err(error) => {
            x.graph().record("diag", error.to_string());
            x.poisoned()
        }
    }
}

/// Diagonal `k` of `x` along `rows`, which it replaces, and `columns`, which is gone. As `jnp.diagonal` and
/// `torch.diagonal`; as `jnp.diag` and `torch.diag` of a matrix.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (i, j) = (dim("i", 3), dim("j", 5));
/// let x = g.input("x", [i, j], F32);
/// assert_eq!(mesh_ops::diagonal(x, i, j, 3).shape().to_string(), "[i:2]");
/// ```
#[track_caller]
pub fn diagonal(x: Tensor<'_>, rows: Dimension, columns: Dimension, k: i32) -> Tensor<'_> {
    let (before, after) = (k.min(0).unsigned_abs() as usize, k.max(0) as usize);
    let size = rows.size.saturating_sub(before).min(columns.size.saturating_sub(after));
    let empty = (size == 0).then(|| format!("{rows} and {columns} have no diagonal {k}"));
    if let Some(problem) = problem(x, rows, columns).or(empty).filter(|_| !x.is_poisoned()) {
        x.graph().record("diagonal", problem);
        return x.poisoned();
    }
    if x.is_poisoned() {
        return x;
    }
    let at = diagonal_of(x.graph(), rows, k);
    let all = crate::gather::gather_onto(x, at, columns, x.shape().without(&[columns.name]));
    crate::slice(all, rows.resized(size), before)
}

/// What is wrong with the dims of a matrix.
fn problem(x: Tensor<'_>, rows: Dimension, columns: Dimension) -> Option<String> {
    let one = (rows == columns).then(|| format!("rows and columns are one dim, {rows}"));
    lacking(x, rows).or_else(|| lacking(x, columns)).or(one)
}

/// `x` at and below diagonal `k`, zeros above. As `jnp.tril` and `torch.tril`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (i, j) = (dim("i", 3), dim("j", 5));
/// let x = g.input("x", [i, j], F32);
/// assert_eq!(mesh_ops::tril(x, i, j, 0).shape(), x.shape());
/// ```
#[track_caller]
pub fn tril(x: Tensor<'_>, rows: Dimension, columns: Dimension, k: i32) -> Tensor<'_> {
    triangle("tril", x, [rows, columns], k, |diagonal, all| greater_equal(diagonal, all))
}

/// `x` at and above diagonal `k`, zeros below. As `jnp.triu` and `torch.triu`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (i, j) = (dim("i", 3), dim("j", 5));
/// let x = g.input("x", [i, j], F32);
/// assert_eq!(mesh_ops::triu(x, i, j, 1).shape(), x.shape());
/// ```
#[track_caller]
pub fn triu(x: Tensor<'_>, rows: Dimension, columns: Dimension, k: i32) -> Tensor<'_> {
    triangle("triu", x, [rows, columns], k, |diagonal, all| less_equal(diagonal, all))
}

#[track_caller]
fn triangle<'g>(
    op: &str,
    x: Tensor<'g>,
    [rows, columns]: [Dimension; 2],
    k: i32,
    kept: impl Fn(Tensor<'g>, Tensor<'g>) -> Tensor<'g>,
) -> Tensor<'g> {
    if let Some(problem) = problem(x, rows, columns).filter(|_| !x.is_poisoned()) {
        x.graph().record(op, problem);
        return x.poisoned();
    }
    if x.is_poisoned() {
        return x;
    }
    let _caller = x.graph().for_caller();
    let all = crate::range(x.graph(), columns, DType::I32);
    select(kept(diagonal_of(x.graph(), rows, k), all), x, x.scalar_like(0.0))
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("eye", |g, x| eye(g, dim("p", 4), dim("r", 6), 2, F32) * x[0])
                    .computes(|x, ty| {
                        let on = |at: &At| at.along("r") == at.along("p") + 2;
                        Dense::each(ty, |at| if on(at) { x[0].at(at) } else { 0.0 })
                    })
                    .exact()
                    .integers("x", "p:4", F32)
                    .meshes(FEW),
                Case::new("diag", |_, x| diag(x[0], dim("q", 6), "r"))
                    .computes(|x, ty| {
                        let on = |at: &At| at.along("r") == at.along("q");
                        Dense::each(ty, |at| if on(at) { x[0].at(at) } else { 0.0 })
                    })
                    .exact()
                    .integers("x", "p:2;q:6", F32)
                    .meshes(FEW),
                of_matrix("diagonal", |x| diagonal(x, dim("p", 4), dim("q", 6), 0), on(0)),
                of_matrix("diagonal: above", |x| diagonal(x, dim("p", 4), dim("q", 6), 4), on(4)),
                of_matrix("diagonal: below", |x| diagonal(x, dim("p", 4), dim("q", 6), -2), on(-2)),
                of_matrix(
                    "tril",
                    |x| tril(x, dim("p", 4), dim("q", 6), 1),
                    |x, at| {
                        if at.along("q") <= at.along("p") + 1 { x.at(at) } else { 0.0 }
                    },
                ),
                of_matrix(
                    "triu",
                    |x| triu(x, dim("p", 4), dim("q", 6), -1),
                    |x, at| {
                        if at.along("q") + 1 >= at.along("p") { x.at(at) } else { 0.0 }
                    },
                ),
            ]
        },
    };

    fn of_matrix(
        name: &str,
        function: Unary,
        element: impl Fn(&Dense, &At) -> f64 + 'static,
    ) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .computes(move |x, ty| Dense::each(ty, |at| element(x[0], at)))
            .exact()
            .integers("x", "p:4;r:2;q:6", F32)
            .meshes(FEW)
    }

    /// Element i of diagonal k.
    fn on(k: i32) -> impl Fn(&Dense, &At) -> f64 {
        let (down, right) = (k.min(0).unsigned_abs() as usize, k.max(0) as usize);
        move |x, at| {
            let i = at.along("p");
            x.at(&at.with("p", i + down).with("q", i + right))
        }
    }
}
