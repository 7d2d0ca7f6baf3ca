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

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Sin>>(|_, x, _| x[0].sin()),
            &Elements::<Map<Cos>>(|_, x, _| x[0].cos()),
        ],
        cases: || {
            vec![
                unary("sin", |x| sin(x), F32, Fill::Normal),
                unary("cos", |x| cos(x), F32, Fill::Normal),
            ]
        },
    };
}
