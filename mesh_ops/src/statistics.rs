//! `var(x, dims, ddof)`, `std(x, dims, ddof)`, `vector_norm(x, order, dims)`, `median(x, dim)`,
//! `quantile(x, q, dim)`.
//!
//! Compositions of reductions and, for the last two, of `sort`. The gradients fall out; that of a norm at 0 is 0,
//! as in PyTorch.

use crate::elementwise::{abs, equal, is_nan, powf, select, sqrt, square};
use crate::reduce::{any, max, mean, min, sum};
use crate::room::*;
use crate::{Order, count_nonzero, pick, sort};

/// The sum of squared distances from the mean over some dims, divided by the number of elements less `ddof`: 0 as
/// `jnp.var` has it by default, 1 as `torch.var`, whose `correction` this is. Floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 5)], F32);
/// assert!(mesh_ops::var(x, [dim("a", 5)], 1).shape().is_scalar());
/// ```
#[track_caller]
pub fn var<'g>(
    x: Tensor<'g>,
    dims: impl IntoIterator<Item = Dimension>,
    ddof: usize,
) -> Tensor<'g> {
    let dims: Vec<_> = dims.into_iter().collect();
    let count: usize = dims.iter().map(|d| d.size).product();
    if count <= ddof && !x.is_poisoned() {
        let message = format!("of {count} elements {ddof} degrees of freedom cannot be taken");
        x.graph().record("var", message);
        return x.poisoned();
    }
    let off = x - mean(x, dims.iter().copied());
    sum(square(off), dims) * (1.0 / (count - ddof) as f64)
}

/// The square root of [`var`]. Where all elements are equal its gradient is not finite.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 5)], F32);
/// assert!(mesh_ops::std(x, [dim("a", 5)], 0).shape().is_scalar());
/// ```
#[track_caller]
pub fn std<'g>(
    x: Tensor<'g>,
    dims: impl IntoIterator<Item = Dimension>,
    ddof: usize,
) -> Tensor<'g> {
    sqrt(var(x, dims, ddof))
}

/// The norm of `x` over some dims as one vector: for order p the p-th root of the sum of the p-th powers of
/// absolute values; for infinity the greatest of them, for minus infinity the least, for 0 how many are not 0.
/// Floats. As `jnp.linalg.vector_norm` and `torch.linalg.vector_norm`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 5)], F32);
/// assert!(mesh_ops::vector_norm(x, 2.0, [dim("a", 5)]).shape().is_scalar());
/// ```
#[track_caller]
pub fn vector_norm<'g>(
    x: Tensor<'g>,
    order: f64,
    dims: impl IntoIterator<Item = Dimension>,
) -> Tensor<'g> {
    if order.is_nan() && !x.is_poisoned() {
        x.graph().record("vector_norm", "the order of a norm is a number, not NaN");
        return x.poisoned();
    }
    let _caller = x.graph().for_caller();
    if order == 0.0 {
        return crate::elementwise::cast(count_nonzero(x, dims), x.dtype());
    }
    if order == 2.0 {
        return root(sum(square(x), dims), |sum| sqrt(sum));
    }
    let size = abs(x);
    if order == f64::INFINITY {
        max(size, dims)
    } else if order == f64::NEG_INFINITY {
        min(size, dims)
    } else if order == 1.0 {
        sum(size, dims)
    } else {
        root(sum(root(size, |size| powf(size, order)), dims), |sum| powf(sum, 1.0 / order))
    }
}

/// A power of what is not negative, 0 of 0, where it has no slope.
#[track_caller]
fn root<'g>(x: Tensor<'g>, power: impl Fn(Tensor<'g>) -> Tensor<'g>) -> Tensor<'g> {
    let is_zero = equal(x, 0);
    select(is_zero, 0, power(select(is_zero, 1, x)))
}

/// The middle of the elements along `dim` in order, of an even number the mean of both; floats; NaN if there is
/// one. As `jnp.median`; `torch.median` takes the lesser of both. The slices of a split `dim` are sorted and gathered.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 5)], F32);
/// assert_eq!(mesh_ops::median(x, dim("b", 5)).shape().to_string(), "[a:2]");
/// ```
#[track_caller]
pub fn median(x: Tensor<'_>, dim: Dimension) -> Tensor<'_> {
    quantile(x, 0.5, dim)
}

/// The element at the part `q` of the way from the first to the last along `dim` in order; between two elements
/// a mean, weighted by how near they are. Floats; NaN if there is one. As `jnp.quantile` and `torch.quantile`. The
/// slices of a split `dim` are sorted and gathered, as `sort` does it: an element's place depends on all others.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 5)], F32);
/// assert_eq!(mesh_ops::quantile(x, 0.9, dim("b", 5)).shape().to_string(), "[a:2]");
/// ```
#[track_caller]
pub fn quantile(x: Tensor<'_>, q: f64, dim: Dimension) -> Tensor<'_> {
    let problem = match lacking(x, dim) {
        None if !(0.0..=1.0).contains(&q) => Some(format!("a part of the way is 0 to 1, not {q}")),
        None if !x.dtype().is_float() => {
            Some(format!("quantile needs floats, not {}; cast it", x.dtype()))
        }
        lacking => lacking,
    };
    if let Some(problem) = problem.filter(|_| !x.is_poisoned()) {
        x.graph().record("quantile", problem);
        return x.poisoned();
    }
    let sorted = sort(x, dim, Order::Ascending);
    let at = q * (dim.size as f64 - 1.0);
    let low = at.floor();
    let low_element = pick(sorted, dim, low as usize);
    let element = match at - low {
        0.0 => low_element,
        weight => low_element * (1.0 - weight) + pick(sorted, dim, low as usize + 1) * weight,
    };
    select(any(is_nan(x), [dim]), f64::NAN, element)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                of_lines("var", |x| var(x, [q()], 1), |line| off_mean(line) / 11.0),
                of_lines("std", |x| std(x, [q()], 2), |line| (off_mean(line) / 10.0).sqrt()),
                of_lines("vector_norm", |x| vector_norm(x, 2.0, [q()]), |line| norm(line, 2.0)),
                of_lines("vector_norm: 1", |x| vector_norm(x, 1.0, [q()]), |line| norm(line, 1.0)),
                of_lines("vector_norm: 3", |x| vector_norm(x, 3.0, [q()]), |line| norm(line, 3.0)),
                of_lines(
                    "vector_norm: most",
                    |x| vector_norm(x, f64::INFINITY, [q()]),
                    |line| line.iter().fold(0.0, |most: f64, x| most.max(x.abs())),
                ),
                of_lines(
                    "vector_norm: least",
                    |x| vector_norm(x, f64::NEG_INFINITY, [q()]),
                    |line| line.iter().fold(f64::INFINITY, |most, x| most.min(x.abs())),
                ),
                Case::new("vector_norm: of zeros", |_, x| vector_norm(x[0], 0.0, [q()]))
                    .computes(|x, ty| {
                        let some = |x: &&f64| **x != 0.0;
                        Dense::each(ty, |at| line(x[0], at, q()).iter().filter(some).count() as f64)
                    })
                    .without_gradient()
                    .integers("x", "p:4;q:12", F32)
                    .meshes(FEW),
                of_lines(
                    "median",
                    |x| median(x, q()),
                    |line| 0.5 * (ranked(line)[5] + ranked(line)[6]),
                ),
                of_lines(
                    "quantile",
                    |x| quantile(x, 0.25, q()),
                    |line| 0.25 * ranked(line)[2] + 0.75 * ranked(line)[3],
                ),
                Case::new("median: NaN", |_, x| median(x[0], dim("q", 3)))
                    .computes(|x, ty| {
                        let line = |at: &At| line(x[0], at, dim("q", 3));
                        let is_bad = |at: &At| line(at).iter().any(|x| x.is_nan());
                        Dense::each(
                            ty,
                            |at| if is_bad(at) { f64::NAN } else { ranked(&line(at))[1] },
                        )
                    })
                    .without_gradient()
                    .input(
                        "x",
                        "p:4;q:3",
                        F32,
                        Fill::Values(vec![2.0, 1.0, 5.0, -1.0, f64::NAN, 0.0]),
                    )
                    .meshes(FEW),
            ]
        },
    };

    /// What a line along q comes to; no element of it is like another, or 0.
    fn of_lines(name: &str, function: Unary, value: fn(&[f64]) -> f64) -> Case {
        Case::new(name, move |_, x| function(x[0]))
            .computes(move |x, ty| Dense::each(ty, |at| value(&line(x[0], at, q()))))
            .input("x", "p:3;q:12", F64, Fill::Values(apart_from_each_other()))
            .meshes(FEW)
    }

    fn apart_from_each_other() -> Vec<f64> {
        let mut all: Vec<_> = (0..36).map(|i| f64::from(i * 7 % 37 - 18) / 8.0 + 0.03).collect();
        all.rotate_left(5);
        all
    }

    fn off_mean(line: &[f64]) -> f64 {
        let mean = line.iter().sum::<f64>() / line.len() as f64;
        line.iter().map(|x| (x - mean).powi(2)).sum()
    }

    fn norm(line: &[f64], order: f64) -> f64 {
        line.iter().map(|x| x.abs().powf(order)).sum::<f64>().powf(1.0 / order)
    }

    fn ranked(line: &[f64]) -> Vec<f64> {
        let mut line = line.to_vec();
        line.sort_by(f64::total_cmp);
        line
    }
}
