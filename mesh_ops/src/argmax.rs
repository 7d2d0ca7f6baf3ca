//! `argmax(x, dim)`, `argmin(x, dim)`: the index of the greatest or least element; the first of
//! equals, a NaN if there is one.
//!
//! A composition: the least index at which x attains its extreme. On a split dim that is a maximum
//! and a minimum over the group.

use crate::elementwise::{equal, logical_or, not_equal, select};
use crate::room::*;

/// The index along `dim` of the greatest element, as i32.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let logits = g.input("logits", [batch, classes], F32);
/// assert_eq!(mesh_ops::argmax(logits, classes).shape().to_string(), "[batch:4]");
/// ```
#[track_caller]
pub fn argmax<'g>(x: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let x = x.stop_gradient();
    attains(x, crate::reduce::max(x, [dim]), dim)
}

/// The index along `dim` of the least element, as i32.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let costs = g.input("costs", [batch, classes], F32);
/// assert_eq!(mesh_ops::argmin(costs, classes).shape().to_string(), "[batch:4]");
/// ```
#[track_caller]
pub fn argmin<'g>(x: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let x = x.stop_gradient();
    attains(x, crate::reduce::min(x, [dim]), dim)
}

/// The first index at which `x` is `extreme`, or not a number.
#[track_caller]
fn attains<'g>(x: Tensor<'g>, extreme: Tensor<'g>, dim: Dimension) -> Tensor<'g> {
    let mut attained = equal(x, extreme);
    if x.dtype().is_float() {
        attained = logical_or(attained, not_equal(x, x));
    }
    let index = crate::range(x.graph(), dim, DType::I32);
    let beyond = x.graph().scalar(dim.size as f64, DType::I32);
    crate::reduce::min(select(attained, index, beyond), [dim])
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("argmax", |_, x| argmax(x[0], q()))
                    .computes(|x, ty| first(x[0], ty, |x| x))
                    .integers("x", MATRIX, F32),
                Case::new("argmin", |_, x| argmin(x[0], q()))
                    .computes(|x, ty| first(x[0], ty, |x| -x))
                    .input("x", "p:4;q:12", F32, Fill::Integers(-1, 1))
                    .meshes(FEW),
            ]
        },
    };

    /// The index along q of the first of those elements that rank highest.
    fn first(x: &Dense, ty: &TensorType, rank: fn(f64) -> f64) -> Dense {
        Dense::each(ty, |at| {
            let ranks: Vec<_> = line(x, at, q()).into_iter().map(rank).collect();
            let highest = |i: &usize| ranks.iter().all(|other| *other <= ranks[*i]);
            (0..ranks.len()).find(highest).map_or(f64::NAN, |i| i as f64)
        })
    }
}
