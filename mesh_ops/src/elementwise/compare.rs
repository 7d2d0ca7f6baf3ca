//! Comparisons: `equal`, `not_equal`, `less`, `less_equal`, `greater`, `greater_equal`; bool.
//!
//! | function | gradient |
//! |---|---|
//! | `equal(a, b)`, `not_equal(a, b)`, any dtype | none |
//! | `less(a, b)`, `less_equal(a, b)`, `greater(a, b)`, `greater_equal(a, b)`, numbers | none |
//!
//! None is linear.

use super::{Elementwise, map, number, same};
use crate::room::*;
use mesh_core::program::Expr;

macro_rules! comparison {
    ($op:ident $function:ident $method:ident $dtype:ident $sign:literal) => {
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $op;

        #[doc = concat!("`a ", $sign, " b`, element by element; `b` may be a number.")]
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let x = g.input("x", [dim("x", 2)], F32);
        #[doc = concat!("assert_eq!(mesh_ops::elementwise::", stringify!($function), "(x, 0).dtype(), Bool);")]
        /// ```
        #[track_caller]
        pub fn $function<'g>(a: Tensor<'g>, b: impl Operand<'g>) -> Tensor<'g> {
            map($op, &[a, b.beside(a)])
        }

        impl Elementwise for $op {
            const NAME: &'static str = stringify!($function);
            const ARITY: usize = 2;
            fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
                $dtype(Self::NAME, inputs)?;
                Ok(DType::Bool)
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

comparison! { Equal equal equal same "==" }
comparison! { NotEqual not_equal not_equal same "!=" }
comparison! { Less less less number "<" }
comparison! { LessEqual less_equal less_equal number "<=" }
comparison! { Greater greater greater number ">" }
comparison! { GreaterEqual greater_equal greater_equal number ">=" }

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Equal>>(|_, x, _| f64::from(x[0] == x[1])),
            &Elements::<Map<NotEqual>>(|_, x, _| f64::from(x[0] != x[1])),
            &Elements::<Map<Less>>(|_, x, _| f64::from(x[0] < x[1])),
            &Elements::<Map<LessEqual>>(|_, x, _| f64::from(x[0] <= x[1])),
            &Elements::<Map<Greater>>(|_, x, _| f64::from(x[0] > x[1])),
            &Elements::<Map<GreaterEqual>>(|_, x, _| f64::from(x[0] >= x[1])),
        ],
        cases: || {
            vec![
                case("equal", |a, b| equal(a, b)),
                case("not_equal", |a, b| not_equal(a, b)),
                case("less", |a, b| less(a, b)),
                case("less_equal", |a, b| less_equal(a, b)),
                case("greater", |a, b| greater(a, b)),
                case("greater_equal", |a, b| greater_equal(a, b)),
            ]
        },
    };

    fn case(name: &str, compare: Binary) -> Case {
        Case::new(name, move |_, x| compare(x[0], x[1]))
            .integers("x", "p:4;q:12", F32)
            .integers("y", "q:12", F32)
    }
}
