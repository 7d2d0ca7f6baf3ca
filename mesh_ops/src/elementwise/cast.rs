//! `cast(x, dtype)`: the same numbers in another dtype.
//!
//! | function | gradient |
//! |---|---|
//! | `cast(x, dtype)` | `dy` cast back, where both are floats |
//!
//! Sums still owed are carried through a cast to an equal or wider float, where it is exact.

use super::{Elementwise, Linear, map};
use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Cast(DType);

/// `x` in another dtype. To i32: towards zero, saturating, 0 of NaN; to bool: `x != 0`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], I32);
/// assert_eq!(mesh_ops::elementwise::cast(x, F32).dtype(), F32);
/// ```
#[track_caller]
pub fn cast(x: Tensor<'_>, dtype: DType) -> Tensor<'_> {
    if x.dtype() == dtype || x.is_poisoned() { x } else { map(Cast(dtype), &[x]) }
}

impl Elementwise for Cast {
    const NAME: &'static str = "cast";
    const ARITY: usize = 1;
    fn dtype(&self, _: &[DType]) -> Result<DType, OpError> {
        Ok(self.0)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().cast(self.0)
    }
    fn linear(&self, inputs: &[DType]) -> Linear {
        let widens = inputs[0].is_float() && self.0.is_float() && self.0.size() >= inputs[0].size();
        (Linearity::Adds, if widens { &[&[0]] } else { &[] })
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let differentiable = x[0].dtype().is_float() && self.0.is_float();
        Ok(vec![differentiable.then(|| cast(dy, x[0].dtype()))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[&Elements::<Map<Cast>>(|Map(Cast(dtype)), x, _| match dtype {
            DType::Bool => f64::from(x[0] != 0.0),
            DType::I32 => f64::from(x[0] as i32),
            _ => x[0],
        })],
        cases: || {
            vec![
                Case::new("f32 to i32", |_, x| cast(x[0], I32)).normal("x", "p:24", F32),
                Case::new("i32 to f32", |_, x| cast(x[0], F32)).integers("x", MATRIX, I32),
                Case::new("f32 to f64", |_, x| cast(x[0], F64))
                    .shows("cast")
                    .normal("x", MATRIX, F32),
                Case::new("f32 to bf16", |_, x| cast(x[0], BF16)).normal("x", MATRIX, F32),
                Case::new("bool to i32", |_, x| cast(x[0], I32)).bools("x", MATRIX),
                Case::new("f32 to bool", |_, x| cast(x[0], Bool)).integers("x", MATRIX, F32),
            ]
        },
    };
}
