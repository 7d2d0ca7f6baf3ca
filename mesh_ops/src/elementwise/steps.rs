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
