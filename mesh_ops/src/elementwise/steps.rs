//! Piecewise simple functions of one tensor: `abs`, `sign`, `floor`.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `abs(x)` | `sign(x) dy` | 0 at 0; the least i32 is its own |
//! | `sign(x)` | none | 0 at 0, NaN of NaN |
//! | `floor(x)` | none | |
//!
//! None is linear.

use super::unary::unary;
use crate::room::*;
use mesh_core::program::Expr;

unary! {
    /// `|x|`; numbers.
    Abs abs number;
    value |x| x.abs();
    gradient |x, _, dy| Some(dy * sign(x));

    /// -1, 0 or 1; numbers. It has no gradient: it is flat.
    Sign sign number;
    value |x| x.sign();
    gradient |_, _, _| None;

    /// The largest whole number not above x; floats. It has no gradient: it is flat.
    Floor floor float;
    value |x| x.floor();
    gradient |_, _, _| None;
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Abs>>(|_, x, _| x[0].abs()),
            &Elements::<Map<Sign>>(|_, x, _| if x[0] == 0.0 { 0.0 } else { x[0].signum() }),
            &Elements::<Map<Floor>>(|_, x, _| x[0].floor()),
        ],
        cases: || {
            vec![
                unary("abs", |x| abs(x), F32, Fill::AwayFromZero),
                Case::new("abs: i32", |_, x| abs(x[0])).integers("x", "p:4;q:6", I32).meshes(FEW),
                unary("sign", |x| sign(x), F32, Fill::AwayFromZero),
                Case::new("sign: i32", |_, x| sign(x[0])).integers("x", "p:4;q:6", I32).meshes(FEW),
                // Flat where elements are not whole.
                unary("floor", |x| floor(x), F32, Fill::AwayFromZero),
            ]
        },
    };
}
