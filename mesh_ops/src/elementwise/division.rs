//! Division with a remainder: `floordiv`, `modulo`; numbers.
//!
//! | function | gradient |
//! |---|---|
//! | `floordiv(a, b) = floor(a / b)` | none: it is flat |
//! | `modulo(a, b) = a - b floor(a / b)`, the sign of b | `dy` to a, `-floor(a / b) dy` to b |
//!
//! For i32 both are exact, and both are 0 where b is 0; floats follow IEEE division there. Neither
//! is linear.

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
            Self::Float => quotient.floor(),
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
struct Modulo;

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
    map(Modulo, &[a, b.beside(a)])
}

impl Elementwise for Modulo {
    const NAME: &'static str = "modulo";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().modulo(x[1].clone())
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
                _ => x[0] - x[1] * floor_of_ratio(x, dtype),
            }),
        ],
        cases: || {
            vec![
                of_floats("modulo", |a, b| modulo(a, b)),
                of_floats("floordiv", |a, b| floordiv(a, b)),
                of_integers("floordiv: i32", |a, b| floordiv(a, b)),
                of_integers("modulo: i32", |a, b| modulo(a, b)),
            ]
        },
    };

    fn floor_of_ratio(x: &[f64], dtype: DType) -> f64 {
        if dtype == DType::I32 && x[1] == 0.0 { 0.0 } else { (x[0] / x[1]).floor() }
    }

    fn of_floats(name: &str, function: Binary) -> Case {
        Case::new(name, move |_, x| function(x[0], x[1]))
            .input("x", "p:4;q:6", F32, Fill::Values(vec![5.3, -4.1, 2.2, -0.7, 3.9]))
            .input("y", "q:6", F32, Fill::Values(vec![1.5, -2.0, 2.5]))
            .meshes(FEW)
    }
}
