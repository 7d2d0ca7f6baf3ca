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

        #[doc = concat!("`a ", $sign, " b`, element by element.")]
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let x = g.input("x", [dim("x", 2)], F32);
        #[doc = concat!("assert_eq!(mesh_ops::elementwise::", stringify!($function), "(x, x).dtype(), Bool);")]
        /// ```
        #[track_caller]
        pub fn $function<'g>(a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
            map($op, &[a, b])
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
