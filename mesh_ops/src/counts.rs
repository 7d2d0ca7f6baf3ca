//! How many elements there are of a kind: `count_nonzero(x, dims)`, `bincount(x, bins)`, `histogram(x, bins, low, high)`.
//!
//! Compositions: sums of truth values, and of ones that are scattered. Any dim may be split. They have no gradient.

use crate::elementwise::{
    cast, floor, greater_equal, less_equal, logical_and, minimum, not_equal, select,
};
use crate::room::*;

/// How many elements over some dims are not 0, or true; i32. NaN is not 0. As `jnp.count_nonzero` and
/// `torch.count_nonzero`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 5)], F32);
/// assert_eq!(mesh_ops::count_nonzero(x, [dim("b", 5)]).dtype(), I32);
/// ```
#[track_caller]
pub fn count_nonzero<'g>(x: Tensor<'g>, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
    let x = x.stop_gradient();
    let truths = if x.dtype() == DType::Bool { x } else { not_equal(x, 0) };
    crate::reduce::sum(cast(truths, DType::I32), dims)
}

/// How many elements of `x`, an i32, are 0, 1, 2, ... over all of its dims: a number for each position along the
/// new dim `bins`. Others count nowhere. As `jnp.bincount` and `torch.bincount` of a known length.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("n", 20)], I32);
/// assert_eq!(mesh_ops::bincount(x, dim("bins", 4)).shape().to_string(), "[bins:4]");
/// ```
#[track_caller]
pub fn bincount(x: Tensor<'_>, bins: Dimension) -> Tensor<'_> {
    if x.dtype() != DType::I32 && !x.is_poisoned() {
        x.graph().record("bincount", format!("bincount is of i32, not {}; cast it", x.dtype()));
        return x.poisoned();
    }
    crate::scatter_add(x.fill_like(1.0), x, bins, [bins])
}

/// How many elements of `x`, floats, lie in each of as many equal parts of `low..=high` as `bins` has positions,
/// over all of its dims; i32. A part has its lower end, the last its upper end too; what lies outside counts
/// nowhere. As `torch.histc`; `jnp.histogram` compares with rounded ends of the parts.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("n", 20)], F32);
/// assert_eq!(mesh_ops::histogram(x, dim("bins", 4), -1.0, 1.0).shape().to_string(), "[bins:4]");
/// ```
#[track_caller]
pub fn histogram(x: Tensor<'_>, bins: Dimension, low: f64, high: f64) -> Tensor<'_> {
    let is_range = low < high && (high - low).is_finite();
    let empty = !is_range;
    if (empty || !x.dtype().is_float()) && !x.is_poisoned() {
        let message = match empty {
            true => format!("histogram needs finite low < high, not {low} and {high}"),
            false => format!("histogram needs floats, not {}; cast it", x.dtype()),
        };
        x.graph().record("histogram", message);
        return x.poisoned();
    }
    let x = x.stop_gradient();
    let count = bins.size as f64;
    let part = minimum(floor((x - low) * (count / (high - low))), count - 1.0);
    let inside = logical_and(greater_equal(x, low), less_equal(x, high));
    bincount(select(inside, cast(part, DType::I32), -1), bins)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("count_nonzero", |_, x| count_nonzero(x[0], [q()]))
                    .computes(|x, ty| {
                        let some = |x: &&f64| **x != 0.0;
                        Dense::each(ty, |at| line(x[0], at, q()).iter().filter(some).count() as f64)
                    })
                    .input("x", "p:4;q:12", F32, Fill::Values(vec![0.0, 1.0, f64::NAN, -0.0, -2.0]))
                    .meshes(FEW),
                Case::new("count_nonzero: bool", |_, x| count_nonzero(x[0], x[0].shape()))
                    .computes(|x, ty| Dense::filled(ty.clone(), x[0].data.iter().sum()))
                    .bools("x", "p:4;q:6")
                    .meshes(FEW),
                Case::new("bincount", |_, x| bincount(x[0], dim("bins", 6)))
                    .computes(|x, ty| {
                        let own = |at: &At| {
                            let bin = at.along("bins") as f64;
                            x[0].data.iter().filter(|x| **x == bin).count() as f64
                        };
                        Dense::each(ty, own)
                    })
                    .input("x", "p:4;q:6", I32, Fill::Integers(-1, 7))
                    .meshes(FEW),
                Case::new("histogram", |_, x| histogram(x[0], dim("bins", 6), -1.0, 2.0))
                    .computes(|x, ty| {
                        let own = |at: &At| {
                            let low = -1.0 + 0.5 * at.along("bins") as f64;
                            let high = if low == 1.5 { f64::INFINITY } else { low + 0.5 };
                            let is_in = |x: &&f64| (low..high).contains(*x) && **x <= 2.0;
                            x[0].data.iter().filter(is_in).count() as f64
                        };
                        Dense::each(ty, own)
                    })
                    .input("x", "p:4;q:6", F32, Fill::Values(edges()))
                    .meshes(FEW),
            ]
        },
    };

    fn edges() -> Vec<f64> {
        vec![-1.0, 2.0, 0.5, -0.25, f64::NAN, 1.75, 2.125, f64::INFINITY, 0.0, -1.5, 1.5]
    }
}
