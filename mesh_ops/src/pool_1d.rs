//! Consecutive elements along a dim, block by block: `pool_1d`, `stride_1d`.
//!
//! Compositions: the dim is reshaped into blocks and positions in a block, and the latter are
//! reduced. The dim may be split as far as blocks stay whole; nothing travels for that.

use crate::room::*;

/// Every `size` elements along `dim` made one by `reduce`, as in `pool_1d(x, time, 2, max)`. The
/// dim keeps its name; its size must be a multiple of `size`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 6);
/// let x = g.input("x", [time], F32);
/// let halved = mesh_ops::pool_1d(x, time, 2, mesh_ops::reduce::mean);
/// assert_eq!(halved.shape().to_string(), "[time:3]");
///
/// mesh_ops::pool_1d(x, time, 4, mesh_ops::reduce::mean);
/// assert!(g.check().unwrap_err().to_string().contains("blocks of 4 do not make up time:6"));
/// ```
#[track_caller]
pub fn pool_1d<'g>(
    x: Tensor<'g>,
    dim: Dimension,
    size: usize,
    reduce: impl FnOnce(Tensor<'g>, [Dimension; 1]) -> Tensor<'g>,
) -> Tensor<'g> {
    let _caller = x.graph().for_caller();
    let problem = if x.is_poisoned() {
        return x;
    } else if x.shape().get(dim.name) != Some(dim) {
        format!("{x:?} has no dim {dim}{}", x.shape().hint(dim))
    } else if size == 0 || !dim.size.is_multiple_of(size) {
        format!("blocks of {size} do not make up {dim}")
    } else {
        let inside = dim.renamed(&format!("{}_low", dim.name)).resized(size);
        let blocks = crate::replace_dims(x, [dim], [dim.resized(dim.size / size), inside]);
        return if blocks.is_poisoned() { blocks } else { reduce(blocks, [inside]) };
    };
    x.graph().record("pool_1d", problem);
    x.poisoned()
}

/// Every `stride`-th element of `x` along `dim`, the first included. The dim keeps its name; its
/// size must be a multiple of `stride`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let time = dim("time", 6);
/// let x = g.input("x", [time], F32);
/// assert_eq!(mesh_ops::stride_1d(x, time, 3).shape().to_string(), "[time:2]");
/// ```
#[track_caller]
pub fn stride_1d<'g>(x: Tensor<'g>, dim: Dimension, stride: usize) -> Tensor<'g> {
    pool_1d(x, dim, stride, |blocks, [inside]| crate::pick(blocks, inside, 0))
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::reduce::{max, mean, min};
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[],
        cases: || {
            vec![
                exact("pool_1d: max of two", |x| pool_1d(x, q(), 2, max))
                    .computes(|x, ty| pooled(x[0], ty, 2, f64::max))
                    .without_gradient()
                    .meshes(FEW),
                exact("pool_1d: max", |x| pool_1d(x, q(), 3, max))
                    .computes(|x, ty| pooled(x[0], ty, 3, f64::max))
                    .without_gradient()
                    .meshes(FEW),
                exact("pool_1d: min", |x| pool_1d(x, q(), 12, min))
                    .computes(|x, ty| pooled(x[0], ty, 12, f64::min))
                    .without_gradient()
                    .meshes(FEW),
                Case::new("pool_1d: mean", |_, x| pool_1d(x[0], q(), 2, mean))
                    .computes(|x, ty| pooled(x[0], ty, 2, |a, b| (a + b) / 2.0))
                    .normal("x", MATRIX, F32),
                exact("stride_1d: two", |x| stride_1d(x, q(), 2))
                    .computes(|x, ty| pooled(x[0], ty, 2, |first, _| first))
                    .meshes(FEW),
                exact("stride_1d", |x| stride_1d(x, q(), 3))
                    .computes(|x, ty| pooled(x[0], ty, 3, |first, _| first)),
            ]
        },
    };

    /// Every `size` elements along q, folded.
    fn pooled(x: &Dense, ty: &TensorType, size: usize, fold: fn(f64, f64) -> f64) -> Dense {
        Dense::each(ty, |at| {
            let from = |i| x.at(&at.with("q", size * at.along("q") + i));
            (1..size).map(from).fold(from(0), fold)
        })
    }
}
