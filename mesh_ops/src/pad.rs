//! `pad(x, dim, low, high)`: zeros before and after a tensor along one dim.
//!
//! | shape | x with the dim grown |
//! |---|---|
//! | split | the dim exchange(permute), others parallel |
//! | linear | moves x |
//! | gradient | slice |
//!
//! Along a split dim each processor receives the positions of its part that others have.

use crate::placed::{PIECES, placed};
use crate::room::*;
use crate::slice::resized;
use mesh_core::lower::LocalPiece;
use mesh_core::program::Scalar;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Pad {
    /// The dim.
    dim: DimName,
    /// Zeros before the first position.
    low: usize,
    /// Zeros after the last position.
    high: usize,
}

/// `x` with `low` zeros before and `high` zeros after its positions along `dim`, which grows; of
/// bools, false.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (time, y) = (dim("time", 5), dim("y", 2));
/// let x = g.input("x", [time, y], F32);
/// assert_eq!(mesh_ops::pad(x, time, 2, 1).shape().to_string(), "[time:8, y:2]");
/// ```
#[track_caller]
pub fn pad(x: Tensor<'_>, dim: Dimension, low: usize, high: usize) -> Tensor<'_> {
    if x.shape().get(dim.name) != Some(dim) && !x.is_poisoned() {
        x.graph().record("pad", format!("{x:?} has no dim {dim}{}", x.shape().hint(dim)));
        return x.poisoned();
    }
    if low == 0 && high == 0 {
        return x;
    }
    x.graph().apply1(Pad { dim: dim.name, low, high }, &[x])
}

impl Op for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        let dim = dim_of(self.name(), x, self.dim)?;
        let size = dim.size.checked_add(self.low).and_then(|size| size.checked_add(self.high));
        let size = size.ok_or_else(|| OpError::new(format!("{dim} grows beyond all bounds")))?;
        Ok(vec![TensorType::new(resized(&x.shape, dim.resized(size))?, x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim], Role::Exchange(PIECES))
            .linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        if cx.parts(self.dim)? > 1 {
            let out = placed(cx, self.dim, &[self.low as i64])?;
            return cx.finish(0, out);
        }
        let (x, shape) = (cx.input(0)?, cx.output_shape(0));
        let zero = Scalar::new(cx.dtype(&x), 0.0);
        let piece = LocalPiece { at: vec![(self.dim, self.low)], ..LocalPiece::whole(x) };
        let out = cx.assemble(&[piece], zero, &shape)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let dim = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim)?;
        Ok(vec![Some(crate::slice(cx.dy(), dim, self.low))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Pad>(|op, x, types| {
            vec![moved(x[0], &types[0], op.dim, |i| i - op.low as i64)]
        })],
        cases: || vec![exact("pad", |x| pad(x, q(), 3, 1))],
    };
}
