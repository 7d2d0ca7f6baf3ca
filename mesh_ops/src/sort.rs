//! `sort(x, dim, order)`, `argsort(x, dim, order)`: the elements along a dim in order, or where
//! they are.
//!
//! Compositions of `top_k` and `rename`: over a split dim each processor sorts its slice, all
//! slices are gathered, and each processor keeps its part of the whole. Equal elements stay in
//! order, and a NaN counts as greater than everything else. The gradient goes back to where the
//! elements came from.

use crate::room::*;
use crate::top_k::ranked;

/// Which element comes first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// The least first.
    Ascending,
    /// The greatest first.
    Descending,
}

/// `x` with the elements along `dim` in order; equal elements keep theirs.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::Order;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 5)], F32);
/// assert_eq!(mesh_ops::sort(x, dim("b", 5), Order::Ascending).shape(), x.shape());
/// ```
#[track_caller]
pub fn sort(x: Tensor<'_>, dim: Dimension, order: Order) -> Tensor<'_> {
    both(x, dim, order).0
}

/// The indices (i32) along `dim` that [`sort`] takes its elements from: `gather` by them sorts.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::Order;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2), dim("b", 5)], F32);
/// assert_eq!(mesh_ops::argsort(x, dim("b", 5), Order::Descending).dtype(), I32);
/// ```
#[track_caller]
pub fn argsort(x: Tensor<'_>, dim: Dimension, order: Order) -> Tensor<'_> {
    both(x, dim, order).1
}

#[track_caller]
fn both<'g>(x: Tensor<'g>, dim: Dimension, order: Order) -> (Tensor<'g>, Tensor<'g>) {
    let _caller = x.graph().for_caller();
    let shape = x.shape();
    let sorted = apart(&shape, dim, "sorted");
    let (values, indices) = ranked(x, dim, sorted, order);
    if values.is_poisoned() {
        return (values, indices);
    }
    let back = |y| crate::transpose(crate::rename(y, sorted, dim.name.as_str()), &shape);
    (back(values), back(indices))
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;
    use crate::top_k::proof::ranks;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("sort", |_, x| sort(x[0], q(), Order::Ascending))
                    .computes(|x, ty| sorted(x[0], ty, Order::Ascending))
                    .input("x", "p:4;q:12", F32, Fill::Distinct),
                Case::new("sort: descending, NaN", |_, x| sort(x[0], q(), Order::Descending))
                    .computes(|x, ty| sorted(x[0], ty, Order::Descending))
                    .without_gradient()
                    .input("x", "q:12;p:4", F32, crate::top_k::proof::with_nan())
                    .meshes(FEW),
                Case::new("argsort", |_, x| argsort(x[0], q(), Order::Ascending))
                    .computes(|x, ty| {
                        let source = |at: &At| ranks(x[0], at, Order::Ascending)[at.along("q")];
                        Dense::each(ty, |at| source(at) as f64)
                    })
                    .input("x", "p:4;q:12", F32, Fill::Integers(-1, 1))
                    .meshes(FEW),
            ]
        },
    };

    fn sorted(x: &Dense, ty: &TensorType, order: Order) -> Dense {
        Dense::each(ty, |at| line(x, at, q())[ranks(x, at, order)[at.along("q")]])
    }
}
