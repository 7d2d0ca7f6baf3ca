//! `logical_and`, `logical_or`, `logical_xor`, `logical_not`: bool.
//!
//! | function | gradient |
//! |---|---|
//! | `logical_and(a, b)`, `logical_or(a, b)`, `logical_xor(a, b)`, `logical_not(a)` | none |
//!
//! None is linear.

use super::{Elementwise, map, same};
use crate::room::*;
use mesh_core::program::Expr;

/// Bool for all inputs.
fn bool(op: &str, inputs: &[DType]) -> Result<DType, OpError> {
    match same(op, inputs)? {
        DType::Bool => Ok(DType::Bool),
        other => Err(OpError::new(format!("{op} needs bool, not {other}; compare or cast it"))),
    }
}

macro_rules! connective {
    ($op:ident $function:ident $method:ident $what:literal) => {
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $op;

        #[doc = concat!("Whether ", $what, ", element by element.")]
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let (a, b) = (g.fill(1.0, [dim("r", 2)], Bool), g.fill(0.0, [dim("c", 3)], Bool));
        #[doc = concat!("let y = mesh_ops::elementwise::", stringify!($function), "(a, b);")]
        /// assert_eq!(y.shape().to_string(), "[r:2, c:3]");
        /// ```
        #[track_caller]
        pub fn $function<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
            map($op, &[a, b])
        }

        impl Elementwise for $op {
            const NAME: &'static str = stringify!($function);
            const ARITY: usize = 2;
            fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
                bool(Self::NAME, inputs)
            }
            fn expr(&self, x: Vec<Expr>) -> Expr {
                x[0].clone().$method(x[1].clone())
            }
            fn gradient<'g>(&self, _: &[Tensor<'g>], _: Tensor<'g>, _: Tensor<'g>) -> Grads<'g> {
                Ok(vec![None, None])
            }
        }
    };
}

connective! { LogicalAnd logical_and and "both are true" }
connective! { LogicalXor logical_xor xor "one is true but not both" }
connective! { LogicalOr logical_or or "either is true" }

#[derive(Debug, PartialEq, Eq, Hash)]
struct LogicalNot;

/// Whether `a` is false, element by element.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let a = g.input("a", [dim("x", 2)], Bool);
/// assert_eq!(mesh_ops::elementwise::logical_not(a).dtype(), Bool);
/// ```
#[track_caller]
pub fn logical_not(a: Tensor<'_>) -> Tensor<'_> {
    map(LogicalNot, &[a])
}

impl Elementwise for LogicalNot {
    const NAME: &'static str = "logical_not";
    const ARITY: usize = 1;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        bool(Self::NAME, inputs)
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        !x[0].clone()
    }
    fn gradient<'g>(&self, _: &[Tensor<'g>], _: Tensor<'g>, _: Tensor<'g>) -> Grads<'g> {
        Ok(vec![None])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<LogicalAnd>>(|_, x, _| x[0] * x[1]),
            &Elements::<Map<LogicalOr>>(|_, x, _| x[0].max(x[1])),
            &Elements::<Map<LogicalXor>>(|_, x, _| (x[0] - x[1]).abs()),
            &Elements::<Map<LogicalNot>>(|_, x, _| 1.0 - x[0]),
        ],
        cases: || {
            vec![
                Case::new("logical_and", |_, x| logical_and(x[0], x[1]))
                    .bools("x", "p:4;q:6")
                    .bools("y", "q:6"),
                Case::new("logical_or", |_, x| logical_or(x[0], x[1]))
                    .bools("x", "p:4;q:6")
                    .bools("y", "q:6"),
                Case::new("logical_xor", |_, x| logical_xor(x[0], x[1]))
                    .bools("x", "p:4;q:6")
                    .bools("y", "q:6")
                    .meshes(FEW),
                Case::new("logical_not", |_, x| logical_not(x[0])).bools("x", "p:4;q:6"),
            ]
        },
    };
}
