//! Powers: `square`, `sqrt`, `rsqrt`, `cbrt`, `reciprocal`, `pow`, `powf`.
//!
//! | function | gradient | where it is not finite |
//! |---|---|---|
//! | `square(x) = x^2` | `2 x dy` | |
//! | `sqrt(x)` | `0.5 dy / y` | NaN below 0; the gradient at 0 is infinite |
//! | `rsqrt(x) = 1 / sqrt(x)` | `-0.5 y^3 dy` | NaN below 0, infinite at 0 |
//! | `cbrt(x)`, the cube root | `dy / (3 y^2)` | the gradient at 0 is infinite |
//! | `reciprocal(x) = 1 / x` | `-y^2 dy` | infinite at 0 |
//! | `pow(x, y) = x^y` | `y x^(y-1) dy` to x, `x^y ln(x) dy` to y | NaN for x < 0 and y not whole |
//! | `powf(x, p) = x^p` | `p x^(p-1) dy` | as `pow` |
//!
//! `x^0` is 1 and its gradient 0 for every x, 0 included. Where `x <= 0` the gradient to y is 0.
//! None is linear.

use super::unary::unary;
use super::{Elementwise, equal, float, greater, holds, log, logical_and, map, select};
use crate::room::*;
use mesh_core::program::{Expr, Scalar};

unary! {
    /// `x * x`; numbers, i32 wraps.
    Square square number;
    value |x| x.clone() * x;
    gradient |x, _, dy| Some(dy * (2.0 * x));

    /// Square root.
    Sqrt sqrt float;
    value |x| x.sqrt();
    gradient |_, y, dy| Some(0.5 * dy / y);

    /// `1 / sqrt(x)`
    Rsqrt rsqrt float;
    value |x| x.rsqrt();
    gradient |_, y, dy| Some(dy * (-0.5 * (y * y * y)));

    /// Cube root, of negative numbers too; at most 2 ulp off in f32.
    Cbrt cbrt float;
    // By logarithms, whose error one step of Newton's method removes.
    value |x| {
        let size = x.clone().abs();
        let rough = (size.clone().log() / 3.0).exp();
        let excess = rough.clone() - size.clone() / (rough.clone() * rough.clone());
        let root = rough - excess / 3.0;
        let is_end = size.clone().equal(0.0).or(size.clone().equal(f64::INFINITY));
        is_end.select(x.clone(), x.sign() * root)
    };
    gradient |_, y, dy| Some(dy / (3.0 * (y * y)));

    /// `1 / x`
    Reciprocal reciprocal float;
    value |x| 1.0 / x;
    gradient |_, y, dy| Some(dy * -(y * y));
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Pow;

/// `x` to the `y`, element by element; floats. With a number `y` it is [`powf`].
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (x, y) = (g.fill(2.0, [dim("r", 2)], F32), g.fill(3.0, [dim("c", 3)], F32));
/// assert_eq!(mesh_ops::elementwise::pow(x, y).shape().to_string(), "[r:2, c:3]");
/// assert_eq!(mesh_ops::elementwise::pow(x, 3).shape(), x.shape());
/// ```
#[track_caller]
pub fn pow<'g>(x: Tensor<'g>, y: impl Operand<'g>) -> Tensor<'g> {
    match y.number() {
        Some(power) => powf(x, power),
        None => map(Pow, &[x, y.beside(x)]),
    }
}

impl Elementwise for Pow {
    const NAME: &'static str = "pow";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().pow(x[1].clone())
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let (x, y) = (x[0], x[1]);
        let (zero, one) = (x.scalar_like(0.0), x.scalar_like(1.0));
        // 0 * 0^-1 would be NaN, and so would ln of what is not positive.
        let base = select(logical_and(equal(x, zero), equal(y, zero)), one, x);
        let positive = select(greater(x, zero), x, one);
        Ok(vec![Some(dy * (y * pow(base, y - 1.0))), Some(dy * (pow(positive, y) * log(positive)))])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Powf(Scalar);

/// `x` to a fixed finite power; floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::powf(x, 1.5).shape(), x.shape());
/// ```
#[track_caller]
pub fn powf(x: Tensor<'_>, power: f64) -> Tensor<'_> {
    map(Powf(Scalar::new(DType::F64, power)), &[x])
}

impl Elementwise for Powf {
    const NAME: &'static str = "powf";
    const ARITY: usize = 1;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        let power = self.0.value();
        if !power.is_finite() {
            return Err(OpError::new(format!("powf needs a finite power, not {power}")));
        }
        holds(Self::NAME, float(Self::NAME, inputs)?, power)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().pow(self.0.value())
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let power = self.0.value();
        let slope = (power != 0.0).then(|| power * powf(x[0], power - 1.0));
        Ok(vec![slope.map(|slope| dy * slope)])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Square>>(|_, x, dtype| product(x[0], x[0], dtype)),
            &Elements::<Map<Sqrt>>(|_, x, _| x[0].sqrt()),
            &Elements::<Map<Rsqrt>>(|_, x, _| 1.0 / x[0].sqrt()),
            &Elements::<Map<Reciprocal>>(|_, x, _| 1.0 / x[0]),
            &Elements::<Map<Cbrt>>(|_, x, _| x[0].cbrt()),
            &Elements::<Map<Pow>>(|_, x, _| x[0].powf(x[1])),
            &Elements::<Map<Powf>>(|Map(Powf(power)), x, _| x[0].powf(power.value())),
        ],
        cases: || {
            vec![
                unary("square", |x| square(x), F32, Fill::Normal),
                Case::new("square: i32", |_, x| square(x[0]))
                    .integers("x", "p:4;q:6", I32)
                    .meshes(FEW),
                unary("sqrt", |x| sqrt(x), F32, Fill::Between(0.25, 4.0)),
                unary("rsqrt", |x| rsqrt(x), F32, Fill::Between(0.25, 4.0)),
                unary("reciprocal", |x| reciprocal(x), F32, Fill::AwayFromZero),
                Case::new("pow", |_, x| pow(x[0], x[1]))
                    .input("x", "p:4;q:6", F32, Fill::Between(0.5, 2.0))
                    .input("y", "q:6", F32, Fill::Between(0.5, 2.0))
                    .meshes(FEW),
                unary("cbrt", |x| cbrt(x), F32, Fill::AwayFromZero),
                unary("cbrt: f64", |x| cbrt(x), F64, Fill::AwayFromZero),
                unary("powf", |x| powf(x, 1.5), F32, Fill::Between(0.25, 4.0)),
            ]
        },
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{floats, worst};

    #[test]
    fn cbrt_keeps_its_digits() {
        let ends = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY];
        let xs = floats().filter(|x| x.is_normal()).chain(ends).collect();
        let (off, at) = worst(&[xs], |x| cbrt(x[0]), |x| x[0].cbrt()).unwrap();
        assert!(off <= 2.0, "{off} ulp off at {at:?}");
    }
}
