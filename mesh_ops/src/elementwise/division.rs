//! Division with a remainder: `floordiv`, `modulo`; numbers.
//!
//! | function | gradient |
//! |---|---|
//! | `floordiv(a, b) = floor(a / b)`, of an infinite a NaN | none: it is flat |
//! | `modulo(a, b) = a - b floor(a / b)`, the sign of b, of an infinite a NaN | `dy` to a, `-floor(a / b) dy` to b |
//!
//! For i32 both are exact, and both are 0 where b is 0; floats follow IEEE division there. By an infinity, as by
//! whatever is so large that `a / b` vanishes, 0 times b leaves a, or if the signs differ -1 times b leaves `a + b`:
//! the floor is that of the quotient before it is rounded. Neither is linear.

use super::{Elementwise, map, number};
use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
enum FloorDiv {
    Float,
    Integer,
}

/// `a / b` rounded down; i32 gives 0 where b is 0. It has no gradient: it is flat.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let a = g.fill(-7.0, [dim("x", 2)], I32);
/// assert_eq!(mesh_ops::elementwise::floordiv(a, 2).dtype(), I32);
/// ```
#[track_caller]
pub fn floordiv<'g>(a: Tensor<'g>, b: impl Operand<'g>) -> Tensor<'g> {
    let op = if a.dtype() == DType::I32 { FloorDiv::Integer } else { FloorDiv::Float };
    map(op, &[a, b.beside(a)])
}

impl Elementwise for FloorDiv {
    const NAME: &'static str = "floordiv";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (a, b) = (x[0].clone(), x[1].clone());
        let quotient = a.clone() / b.clone();
        match self {
            Self::Float => {
                // Where the quotient vanishes its sign is lost.
                let below = quotient.clone().equal(0.0).and((a.clone() * b).less(0.0));
                below.select(-1.0, quotient.floor()) + a * 0.0
            }
            Self::Integer => {
                // Truncation went up where remainder and divisor differ in sign.
                let remainder = a - quotient.clone() * b.clone();
                let up = (remainder.sign() * b.sign()).less(0.0);
                up.select(quotient.clone() - 1.0, quotient)
            }
        }
    }
    fn gradient<'g>(&self, _: &[Tensor<'g>], _: Tensor<'g>, _: Tensor<'g>) -> Grads<'g> {
        Ok(vec![None, None])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Modulo {
    Float,
    Integer,
}

/// What `floordiv` leaves of a, with the sign of b; i32 gives 0 where b is 0.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let a = g.fill(-7.0, [dim("x", 2)], I32);
/// assert_eq!(mesh_ops::elementwise::modulo(a, 2).dtype(), I32);
/// ```
#[track_caller]
pub fn modulo<'g>(a: Tensor<'g>, b: impl Operand<'g>) -> Tensor<'g> {
    let op = if a.dtype() == DType::I32 { Modulo::Integer } else { Modulo::Float };
    map(op, &[a, b.beside(a)])
}

impl Elementwise for Modulo {
    const NAME: &'static str = "modulo";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (a, b) = (x[0].clone(), x[1].clone());
        match self {
            Self::Float => {
                let quotient = a.clone() / b.clone();
                let below = (a.clone() * b.clone()).less(0.0);
                let whole = below.select(a.clone() + b.clone(), a.clone());
                quotient.clone().equal(0.0).select(whole, a - b * quotient.floor())
            }
            Self::Integer => a.modulo(b),
        }
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(dy), Some(dy * -floordiv(x[0], x[1]))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<FloorDiv>>(|_, x, dtype| floor_of_ratio(x, dtype)),
            &Elements::<Map<Modulo>>(|_, x, dtype| match dtype {
                DType::I32 if x[1] == 0.0 => 0.0,
                _ if x[1].is_infinite() && x[0].is_finite() => {
                    let agrees = x[0] == 0.0 || (x[0] < 0.0) == (x[1] < 0.0);
                    if agrees { x[0] } else { x[1] }
                }
                _ => x[0] - x[1] * floor_of_ratio(x, dtype),
            }),
        ],
        cases: || {
            vec![
                of_floats("modulo", |a, b| modulo(a, b)),
                of_floats("floordiv", |a, b| floordiv(a, b)),
                at_infinities("modulo: infinities", |a, b| modulo(a, b)),
                at_infinities("floordiv: infinities", |a, b| floordiv(a, b)),
                of_integers("floordiv: i32", |a, b| floordiv(a, b)),
                of_integers("modulo: i32", |a, b| modulo(a, b)),
            ]
        },
    };

    fn floor_of_ratio(x: &[f64], dtype: DType) -> f64 {
        match dtype {
            DType::I32 if x[1] == 0.0 => 0.0,
            _ if x[0].is_infinite() => f64::NAN,
            _ if x[1].is_infinite() && x[0] * x[1].signum() < 0.0 => -1.0,
            _ => (x[0] / x[1]).floor(),
        }
    }

    fn at_infinities(name: &str, function: Binary) -> Case {
        const INF: f64 = f64::INFINITY;
        Case::new(name, move |_, x| function(x[0], x[1]))
            .without_gradient()
            .input(
                "x",
                "p:4;q:6",
                F32,
                Fill::Values(vec![INF, -2.5, 0.0, f64::NAN, 3.25, -INF, -0.5]),
            )
            .input("y", "q:6", F32, Fill::Values(vec![INF, -INF, 1.5]))
            .meshes(FEW)
    }

    fn of_floats(name: &str, function: Binary) -> Case {
        Case::new(name, move |_, x| function(x[0], x[1]))
            .input("x", "p:4;q:6", F32, Fill::Values(vec![5.3, -4.1, 2.2, -0.7, 3.9]))
            .input("y", "q:6", F32, Fill::Values(vec![1.5, -2.0, 2.5]))
            .meshes(FEW)
    }
}
