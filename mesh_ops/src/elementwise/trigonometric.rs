//! `sin`, `cos` and `tan`, of radians, and their inverses: `asin`, `acos`, `atan`, `atan2`.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `sin(x)` | `cos(x) dy` | NaN at the infinities |
//! | `cos(x)` | `-sin(x) dy` | NaN at the infinities |
//! | `tan(x) = sin(x) / cos(x)` | `(1 + y^2) dy` | NaN at the infinities |
//! | `asin(x)` | `dy / sqrt(1 - x^2)` | NaN beyond -1 and 1 |
//! | `acos(x)` | `-dy / sqrt(1 - x^2)` | NaN beyond -1 and 1 |
//! | `atan(x)` | `dy / (1 + x^2)` | |
//! | `atan2(y, x)` | `x / (x^2 + y^2) dy` to y, `-y / (x^2 + y^2) dy` to x | both 0 at the origin |
//!
//! `atan(x)` is `atan2(x, 1)`. None is linear.

use super::unary::unary;
use super::{Elementwise, equal, map, rsqrt, select, square};
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

    /// Tangent of radians.
    Tan tan float;
    value |x| x.tan();
    gradient |_, y, dy| Some(dy * (1.0 + y * y));

    /// The angle from -pi/2 to pi/2 whose sine is `x`.
    Asin asin float;
    value |x| x.asin();
    gradient |x, _, dy| Some(dy * (rsqrt(1.0 - x) * rsqrt(1.0 + x)));

    /// The angle from 0 to pi whose cosine is `x`.
    Acos acos float;
    value |x| x.acos();
    gradient |x, _, dy| Some(dy * -(rsqrt(1.0 - x) * rsqrt(1.0 + x)));

    /// The angle from -pi/2 to pi/2 whose tangent is `x`.
    Atan atan float;
    value |x| x.atan2(1.0);
    gradient |x, _, dy| Some(dy / (1.0 + x * x));
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Atan2;

/// The angle of the point with ordinate `y` and abscissa `x`, from -pi to pi; floats. Zeros have a sign
/// here: above the negative abscissae it is pi, below them -pi.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (y, x) = (g.fill(2.0, [dim("r", 2)], F32), g.fill(-3.0, [dim("c", 3)], F32));
/// assert_eq!(mesh_ops::elementwise::atan2(y, x).shape().to_string(), "[r:2, c:3]");
/// ```
#[track_caller]
pub fn atan2<'g>(y: Tensor<'g>, x: impl Operand<'g>) -> Tensor<'g> {
    map(Atan2, &[y, x.beside(y)])
}

impl Elementwise for Atan2 {
    const NAME: &'static str = "atan2";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().atan2(x[1].clone())
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let (y, x) = (x[0], x[1]);
        let distance = square(y) + square(x);
        let distance = select(equal(distance, 0), 1, distance);
        let slope = dy / distance;
        Ok(vec![Some(slope * x), Some(slope * -y)])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Sin>>(|_, x, _| x[0].sin()),
            &Elements::<Map<Cos>>(|_, x, _| x[0].cos()),
            &Elements::<Map<Tan>>(|_, x, _| x[0].tan()),
            &Elements::<Map<Asin>>(|_, x, _| x[0].asin()),
            &Elements::<Map<Acos>>(|_, x, _| x[0].acos()),
            &Elements::<Map<Atan>>(|_, x, _| x[0].atan()),
            &Elements::<Map<Atan2>>(|_, x, _| x[0].atan2(x[1])),
        ],
        cases: || {
            let inside = Fill::Between(-0.75, 0.75);
            vec![
                unary("sin", |x| sin(x), F32, Fill::Normal),
                unary("cos", |x| cos(x), F32, Fill::Normal),
                unary("tan", |x| tan(x), F32, Fill::Between(-1.0, 1.0)),
                unary("asin", |x| asin(x), F32, inside.clone()),
                unary("acos", |x| acos(x), F32, inside),
                unary("atan", |x| atan(x), F32, Fill::Normal),
                Case::new("atan2", |_, x| atan2(x[0], x[1]))
                    .away_from_zero("y", "p:4;q:6", F32)
                    .away_from_zero("x", "q:6", F32)
                    .meshes(FEW),
            ]
        },
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{floats, worst};

    #[test]
    fn inverses_keep_their_digits() {
        type Case = (for<'g> fn(Tensor<'g>) -> Tensor<'g>, fn(f64) -> f64);
        let cases: [Case; 3] =
            [(|x| asin(x), f64::asin), (|x| acos(x), f64::acos), (|x| atan(x), f64::atan)];
        for (i, (function, exact)) in cases.into_iter().enumerate() {
            let xs = floats().chain([0.0, -0.0, 1.0, -1.0]);
            let xs = xs.filter(|&x| !exact(f64::from(x)).is_nan()).collect();
            let (off, at) = worst(&[xs], |x| function(x[0]), |x| exact(x[0])).unwrap();
            assert!(off <= 2.5, "function {i}: {off} ulp off at {at:?}");
        }
    }
}
