//! `add`, `sub`, `mul`, `div`, `neg`: also the operators of tensors. `lerp` is between two.
//!
//! | function | gradient |
//! |---|---|
//! | `add(a, b) = a + b` | `dy` to each |
//! | `sub(a, b) = a - b` | `dy` to a, `-dy` to b |
//! | `mul(a, b) = a b` | `b dy` to a, `a dy` to b |
//! | `div(a, b) = a / b` | `dy / b` to a, `-y dy / b` to b |
//! | `neg(a) = -a` | `-dy` |
//!
//! Sums still owed by an input are carried: through `add` and `sub` if both owe them, through
//! `mul` by a whole factor, through `div` by a whole divisor.

use super::{Elementwise, Linear, map, number};
use crate::reduce::sum_onto;
use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Add;

/// `a + b`
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (row, column) = (g.fill(1.0, [dim("r", 2)], F32), g.fill(2.0, [dim("c", 3)], F32));
/// assert_eq!(mesh_ops::elementwise::add(row, column).shape().to_string(), "[r:2, c:3]");
/// ```
#[track_caller]
pub fn add<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
    map(Add, &[a, b])
}

impl Elementwise for Add {
    const NAME: &'static str = "add";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone() + x[1].clone()
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Adds, &[&[0, 1]])
    }
    fn gradient<'g>(&self, _: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(dy), Some(dy)])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sub;

/// `a - b`
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.fill(1.0, [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::sub(x, x).shape(), x.shape());
/// ```
#[track_caller]
pub fn sub<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
    map(Sub, &[a, b])
}

impl Elementwise for Sub {
    const NAME: &'static str = "sub";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone() - x[1].clone()
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Adds, &[&[0, 1]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        // Summed first: what is negated is not larger than the second input.
        Ok(vec![Some(dy), Some(-sum_onto(dy, &x[1].shape()))])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mul;

/// `a * b`
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.fill(3.0, [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::mul(x, x).shape(), x.shape());
/// ```
#[track_caller]
pub fn mul<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
    map(Mul, &[a, b])
}

impl Elementwise for Mul {
    const NAME: &'static str = "mul";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone() * x[1].clone()
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Multiplies, &[&[0], &[1]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let product =
            |other: Tensor<'g>, onto: Tensor<'g>| crate::einsum::einsum(dy, &[other], onto.shape());
        Ok(vec![Some(product(x[1], x[0])), Some(product(x[0], x[1]))])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Div;

/// `a / b`; i32 truncates, and gives 0 where b is 0.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.fill(3.0, [dim("x", 2)], F32);
/// assert_eq!((1.0 / x).shape(), x.shape());
/// ```
#[track_caller]
pub fn div<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
    map(Div, &[a, b])
}

impl Elementwise for Div {
    const NAME: &'static str = "div";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone() / x[1].clone()
    }
    fn linear(&self, inputs: &[DType]) -> Linear {
        // Truncation is not linear.
        (Linearity::Multiplies, if inputs[0].is_float() { &[&[0]] } else { &[] })
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], y: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let over = dy / x[1];
        Ok(vec![Some(over), Some(-(over * y))])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Neg;

/// `-a`
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.fill(3.0, [dim("x", 2)], F32);
/// assert_eq!((-x).shape(), x.shape());
/// ```
#[track_caller]
pub fn neg(a: Tensor<'_>) -> Tensor<'_> {
    map(Neg, &[a])
}

impl Elementwise for Neg {
    const NAME: &'static str = "neg";
    const ARITY: usize = 1;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        number(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        -x[0].clone()
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Adds, &[&[0]])
    }
    fn gradient<'g>(&self, _: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![Some(-dy)])
    }
}

/// `a + weight (b - a)`: `a` at weight 0, `b` at weight 1; numbers. A composition.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (a, b) = (g.fill(3.0, [dim("x", 2)], F32), g.fill(5.0, [dim("x", 2)], F32));
/// assert_eq!(mesh_ops::elementwise::lerp(a, b, 0.25).shape(), a.shape());
/// ```
#[track_caller]
pub fn lerp<'g>(a: Tensor<'g>, b: Tensor<'g>, weight: impl Operand<'g>) -> Tensor<'g> {
    add(a, mul(weight.beside(a), sub(b, a)))
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Add>>(|_, x, _| x[0] + x[1]),
            &Elements::<Map<Sub>>(|_, x, _| x[0] - x[1]),
            &Elements::<Map<Mul>>(|_, x, dtype| product(x[0], x[1], dtype)),
            &Elements::<Map<Div>>(|_, x, dtype| match dtype {
                DType::I32 if x[1] == 0.0 => 0.0,
                DType::I32 => (x[0] / x[1]).trunc(),
                _ => x[0] / x[1],
            }),
            &Elements::<Map<Neg>>(|_, x, _| -x[0]),
        ],
        cases: || {
            vec![
                Case::new("add", |_, x| x[0] + x[1])
                    .normal("x", MATRIX, F32)
                    .normal("y", MATRIX, F32),
                Case::new("add: i32, by name", |_, x| x[0] + x[1])
                    .integers("x", "p:8", I32)
                    .integers("y", MATRIX, I32),
                Case::new("sub: outer", |_, x| x[0] - x[1])
                    .exact()
                    .integers("x", "p:8", F32)
                    .integers("y", "q:12", F32),
                Case::new("mul", |_, x| x[0] * x[1])
                    .normal("x", MATRIX, F32)
                    .normal("y", "q:12", F32),
                Case::new("mul: bf16", |_, x| x[0] * x[1])
                    .normal("x", "p:8", BF16)
                    .normal("y", "p:8", BF16),
                Case::new("square by mul", |_, x| x[0] * x[0]).exact().integers("x", MATRIX, F32),
                Case::new("div", |_, x| x[0] / x[1])
                    .normal("x", MATRIX, F32)
                    .away_from_zero("y", "p:8", F32),
                Case::new("div: i32", |_, x| x[0] / x[1])
                    .input("x", "p:12", I32, Fill::Integers(-20, 20))
                    .integers("y", "p:12", I32),
                Case::new("lerp: by name", |_, x| lerp(x[0], x[1], x[2]))
                    .composed()
                    .computes(|x, ty| {
                        let mixed = |w: f64, a: f64, b: f64| (1.0 - w) * a + w * b;
                        Dense::each(ty, |at| mixed(x[2].at(at), x[0].at(at), x[1].at(at)))
                    })
                    .normal("a", "p:4;q:6", F32)
                    .normal("b", "q:6", F32)
                    .normal("weight", "p:4", F32)
                    .meshes(FEW),
                Case::new("neg", |_, x| -x[0]).exact().integers("x", MATRIX, F32),
                Case::new("scale", |_, x| 2.0 * x[0] - 1.0).exact().integers("x", MATRIX, F64),
            ]
        },
    };
}
