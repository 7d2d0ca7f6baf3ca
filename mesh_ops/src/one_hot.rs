//! `one_hot(indices, dim, dtype)`: 1 where the position along `dim` is the index, else 0.
//!
//! A comparison with the positions of `dim`: every dim may be split. No gradient: indices are
//! integers.

use crate::elementwise::{cast, equal};
use crate::room::*;

/// A tensor with the dims of `indices` (i32) and `dim`: 1 where the position along `dim` is the
/// index, else 0. An index outside `0..dim.size` gives zeros only.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let label = g.input("label", [dim("batch", 4)], I32);
/// let target = mesh_ops::one_hot(label, dim("classes", 10), F32);
/// assert_eq!(target.shape().to_string(), "[batch:4, classes:10]");
/// ```
#[track_caller]
pub fn one_hot(indices: Tensor<'_>, dim: Dimension, dtype: DType) -> Tensor<'_> {
    if indices.is_poisoned() {
        return indices;
    }
    let problem = if indices.dtype() != DType::I32 {
        format!("indices are i32, not {}; cast them", indices.dtype())
    } else if indices.shape().contains(dim.name) {
        format!("{indices:?} has a dim {} already; rename one of them", dim.name)
    } else {
        return cast(equal(indices, crate::range(indices.graph(), dim, DType::I32)), dtype);
    };
    indices.graph().record("one_hot", problem);
    indices.poisoned()
}

/// As [`one_hot`], with numbers of your own for 1 and 0, as in smoothed labels.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let label = g.input("label", [dim("batch", 4)], I32);
/// let smooth = mesh_ops::one_hot_with(label, dim("classes", 10), 0.91, 0.01, F32);
/// assert_eq!(smooth.shape().to_string(), "[batch:4, classes:10]");
/// ```
#[track_caller]
pub fn one_hot_with(
    indices: Tensor<'_>,
    dim: Dimension,
    on: f64,
    off: f64,
    dtype: DType,
) -> Tensor<'_> {
    let hot = one_hot(indices, dim, dtype);
    if hot.is_poisoned() {
        return hot;
    }
    hot * on + (1.0 - hot) * off
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                Case::new("one_hot", |_, x| one_hot(x[0], q(), F32))
                    .computes(|x, ty| hot(x[0], ty, [1.0, 0.0]))
                    .indices("i", "p:8", 12),
                Case::new("one_hot_with", |_, x| one_hot_with(x[0], dim("q", 6), 0.75, -0.25, F32))
                    .computes(|x, ty| hot(x[0], ty, [0.75, -0.25]))
                    .input("at", "p:4", I32, Fill::Integers(-1, 6))
                    .meshes(FEW),
            ]
        },
    };

    fn hot(indices: &Dense, ty: &TensorType, [on, off]: [f64; 2]) -> Dense {
        let is_it = |at: &At| indices.at(at) == at.along("q") as f64;
        Dense::each(ty, |at| if is_it(at) { on } else { off })
    }
}
