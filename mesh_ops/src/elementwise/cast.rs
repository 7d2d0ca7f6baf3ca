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
