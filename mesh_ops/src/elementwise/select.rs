//! `select(condition, yes, no)`: yes where the condition is true, else no.
//!
//! | function | gradient |
//! |---|---|
//! | `select(condition, yes, no)` | `dy` to the branch that was chosen, 0 to the other |
//!
//! The gradient is dy where a branch was chosen and 0 elsewhere, chosen and not multiplied: NaN or
//! infinity in the other branch reaches neither value nor gradient. What the other branch was
//! computed from still meets its own slope there, and 0 times infinity is NaN: give it a safe
//! input, as in `select(x > 0, log(select(x > 0, x, 1)), 0)`.
//!
//! Linear in both branches together, so a sum still owed is carried if both owe it.

use super::{Elementwise, Linear, map, same};
use crate::room::*;
use mesh_core::program::Expr;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Select;

/// `yes` where `condition`, a bool, is true, else `no`; the branches have one dtype, any. One of them may
/// be a number.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # use mesh_ops::elementwise::{greater, select};
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(select(greater(x, 0), x, 0).shape(), x.shape());
/// ```
#[track_caller]
pub fn select<'g>(
    condition: Tensor<'g>,
    yes: impl Operand<'g>,
    no: impl Operand<'g>,
) -> Tensor<'g> {
    let (yes, no) = match (yes.number(), no.number()) {
        (None, _) => {
            let yes = yes.beside(condition);
            (yes, no.beside(yes))
        }
        (Some(_), None) => {
            let no = no.beside(condition);
            (yes.beside(no), no)
        }
        (Some(_), Some(_)) => {
            let message =
                "of two numbers the dtype is not known; make one a tensor with Graph::scalar";
            condition.graph().record("select", message);
            return condition.poisoned();
        }
    };
    map(Select, &[condition, yes, no])
}

/// The dtype of the branches.
fn branches(op: &str, inputs: &[DType]) -> Result<DType, OpError> {
    match inputs[0] {
        DType::Bool => same(op, &inputs[1..]),
        other => Err(OpError::new(format!("{op} needs a bool condition, not {other}; compare it"))),
    }
}

impl Elementwise for Select {
    const NAME: &'static str = "select";
    const ARITY: usize = 3;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        branches(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().select(x[1].clone(), x[2].clone())
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Moves, &[&[1, 2]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let chosen = |when| Some(map(Chosen { when }, &[x[0], dy]));
        Ok(vec![None, chosen(true), chosen(false)])
    }
}

/// Of (condition, dy): dy where the condition is `when`, else 0. As a select with zeros, but linear
/// in dy alone, so a sum that dy owes is carried.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chosen {
    pub(crate) when: bool,
}

impl Elementwise for Chosen {
    const NAME: &'static str = "select_gradient";
    const ARITY: usize = 2;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        branches(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (condition, dy) = (x[0].clone(), x[1].clone());
        if self.when { condition.select(dy, 0.0) } else { condition.select(0.0, dy) }
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Moves, &[&[1]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![None, Some(map(Self { when: self.when }, &[x[0], dy]))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Select>>(|_, x, _| if x[0] != 0.0 { x[1] } else { x[2] }),
            &Elements::<Map<Chosen>>(
                |Map(Chosen { when }), x, _| {
                    if (x[0] != 0.0) == *when { x[1] } else { 0.0 }
                },
            ),
        ],
        cases: || {
            vec![
                Case::new("select", |_, x| select(x[0], x[1], x[2]))
                    .exact()
                    .bools("condition", "p:4")
                    .integers("yes", "p:4;q:6", F32)
                    .integers("no", "q:6", F32),
                Case::new("select: i32", |_, x| select(x[0], x[1], x[2]))
                    .bools("condition", "p:4;q:6")
                    .integers("yes", "p:4", I32)
                    .integers("no", "q:6", I32),
            ]
        },
    };
}
