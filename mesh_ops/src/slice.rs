//! `slice(x, dim, begin)`: part of a tensor along one dim.
//!
//! | shape | x with the dim resized |
//! |---|---|
//! | split | the dim exchange(permute), others parallel |
//! | linear | moves x |
//! | gradient | pad with zeros |
//!
//! Along a split dim each processor receives the positions of its part that others have.

use crate::placed::{PIECES, placed, resized};
use crate::room::*;
use mesh_core::program::Offset;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Slice {
    /// Name of the dim, and how much of it is kept.
    dim: Dimension,
    /// The first position that is kept.
    begin: usize,
}

/// The positions `begin..begin + dim.size` of `x` along the dim of that name; the result has `dim`
/// in its place.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("time", 5), dim("y", 2)], F32);
/// let tail = mesh_ops::slice(x, dim("time", 3), 2);
/// assert_eq!(tail.shape().to_string(), "[time:3, y:2]");
///
/// mesh_ops::slice(x, dim("time", 3), 3);
/// assert!(g.check().unwrap_err().to_string().contains("ends at 6, beyond time:5"));
/// ```
#[track_caller]
pub fn slice(x: Tensor<'_>, dim: Dimension, begin: usize) -> Tensor<'_> {
    if begin == 0 && x.shape().get(dim.name) == Some(dim) {
        return x;
    }
    x.graph().apply1(Slice { dim, begin }, &[x])
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        let [x] = inputs(self.name(), types)?;
        let whole = dim_of(self.name(), x, self.dim.name)?;
        let end = self.begin.saturating_add(self.dim.size);
        if end > whole.size {
            return Err(OpError::new(format!("the slice ends at {end}, beyond {whole} of {x}")));
        }
        Ok(vec![TensorType::new(resized(&x.shape, self.dim)?, x.dtype)])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
            .with([self.dim.name], Role::Exchange(PIECES))
            .linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let name = self.dim.name;
        if cx.parts(name)? > 1 {
            let out = placed(cx, name, &[-(self.begin as i64)])?;
            return cx.finish(0, out);
        }
        let x = cx.input(0)?;
        let out = cx.cut(&x, name, Offset::fixed(self.begin), self.dim.size)?;
        cx.finish(0, out)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        let whole = dim_of(self.name(), &cx.input(0).tensor_type(), self.dim.name)?;
        let after = whole.size - self.begin - self.dim.size;
        Ok(vec![Some(crate::pad(cx.dy(), self.dim, self.begin, after))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Outputs::<Slice>(|op, x, types| {
            vec![moved(x[0], &types[0], op.dim.name, |i| i + op.begin as i64)]
        })],
        cases: || vec![exact("slice", |x| slice(x, dim("q", 6), 2))],
    };
}
