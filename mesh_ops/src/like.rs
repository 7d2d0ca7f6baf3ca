//! `zeros_like(x)`, `ones_like(x)`: tensors of equal elements; see
//! [`Tensor::fill_like`] for other numbers.

use crate::room::*;

/// Zeros of the shape and dtype of `x`; of bools, false.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], I32);
/// assert_eq!(mesh_ops::zeros_like(x).dtype(), I32);
/// ```
#[track_caller]
pub fn zeros_like(x: Tensor<'_>) -> Tensor<'_> {
    x.fill_like(0.0)
}

/// Ones of the shape and dtype of `x`; of bools, true.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("a", 2)], Bool);
/// assert_eq!(mesh_ops::ones_like(x).shape(), x.shape());
/// ```
#[track_caller]
pub fn ones_like(x: Tensor<'_>) -> Tensor<'_> {
    x.fill_like(1.0)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                exact("zeros_like", |x| zeros_like(x))
                    .computes(|_, ty| Dense::zeros(ty.clone()))
                    .meshes(FEW),
                exact("ones_like", |x| ones_like(x))
                    .computes(|_, ty| Dense::filled(ty.clone(), 1.0))
                    .meshes(FEW),
                exact("zeros_like, ones_like", |x| zeros_like(x) - ones_like(x) + x)
                    .computes(|x, ty| Dense::each(ty, |at| x[0].at(at) - 1.0))
                    .meshes(FEW),
            ]
        },
    };
}
