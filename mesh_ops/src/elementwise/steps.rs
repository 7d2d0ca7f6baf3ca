//! Piecewise simple functions of one tensor: `abs`, `sign`, `floor`, `ceil`, `round`, `trunc`.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `abs(x)` | `sign(x) dy` | 0 at 0; the least i32 is its own |
//! | `sign(x)` | none | 0 at 0, NaN of NaN |
//! | `floor(x)`, `ceil(x)`, `round(x)`, `trunc(x)` | none | |
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

    /// The smallest whole number not below x; floats. It has no gradient: it is flat.
    Ceil ceil float;
    value |x| x.ceil();
    gradient |_, _, _| None;

    /// The nearest whole number, of two that are as near the even one, as JAX and PyTorch have it; floats.
    /// It has no gradient: it is flat.
    Round round float;
    value |x| x.round();
    gradient |_, _, _| None;

    /// x without what is behind the point: the next whole number towards 0; floats. It has no gradient: it
    /// is flat.
    Trunc trunc float;
    value |x| x.clone().less(0.0).select(x.clone().ceil(), x.floor());
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
            &Elements::<Map<Ceil>>(|_, x, _| -(-x[0]).floor()),
            &Elements::<Map<Round>>(|_, x, _| {
                let (low, rest) = (x[0].floor(), x[0] - x[0].floor());
                let is_up = rest > 0.5 || rest == 0.5 && low.rem_euclid(2.0) == 1.0;
                if is_up { low + 1.0 } else { low }
            }),
            &Elements::<Map<Trunc>>(|_, x, _| x[0].signum() * x[0].abs().floor()),
        ],
        cases: || {
            vec![
                unary("abs", |x| abs(x), F32, Fill::AwayFromZero),
                Case::new("abs: i32", |_, x| abs(x[0])).integers("x", "p:4;q:6", I32).meshes(FEW),
                unary("sign", |x| sign(x), F32, Fill::AwayFromZero),
                Case::new("sign: i32", |_, x| sign(x[0])).integers("x", "p:4;q:6", I32).meshes(FEW),
                // Flat where elements are not whole.
                unary("floor", |x| floor(x), F32, Fill::AwayFromZero),
                unary("ceil", |x| ceil(x), F32, parts()),
                unary("round", |x| round(x), F32, parts()),
                unary("round: halves", |x| round(x), F32, Fill::Values(halves()))
                    .without_gradient(),
                unary("trunc", |x| trunc(x), F32, parts()),
            ]
        },
    };

    /// Neither whole nor halves.
    fn parts() -> Fill {
        Fill::Values(vec![-2.75, 1.25, 0.375, -0.25, 2.125, -1.625, 0.75])
    }

    fn halves() -> Vec<f64> {
        (-6..6).map(|i| 0.5 + f64::from(i)).collect()
    }
}
