//! `sin` and `cos`, of radians.
//!
//! | function | gradient |
//! |---|---|
//! | `sin(x)` | `cos(x) dy` |
//! | `cos(x)` | `-sin(x) dy` |
//!
//! Neither is linear; both are NaN at the infinities.

use super::unary::unary;
use crate::room::*;
use mesh_core::program::Expr;

unary! {
    /// Sine of radians.
    Sin sin float;
    value |x| x.sin();
    gradient |x, _, dy| Some(dy * cos(x));

    /// Cosine of radians.
    Cos cos float;
    value |x| x.cos();
    gradient |x, _, dy| Some(dy * -sin(x));
}
