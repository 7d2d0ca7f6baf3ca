//! Bits of whole numbers, i32 in two's complement: `bit_and`, `bit_or`, `bit_xor`, `bit_not`, `shift_left`,
//! `shift_right`.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `bit_and(a, b)`, `bit_or(a, b)`, `bit_xor(a, b)`, `bit_not(a)` | none | |
//! | `shift_left(a, b)` | none | 0 for b below 0 or above 31 |
//! | `shift_right(a, b)` | none | copies of the sign come in; b below 0 or above 31 leaves nothing else |
//!
//! None is linear. Of bools, the functions of `logical` do the same.

use super::{Elementwise, map, same};
use crate::room::*;
use mesh_core::program::Expr;

fn whole(op: &str, inputs: &[DType]) -> Result<DType, OpError> {
    match same(op, inputs)? {
        DType::I32 => Ok(DType::I32),
        other => Err(OpError::new(format!("{op} needs i32, not {other}; cast it"))),
    }
}

macro_rules! of_bits {
    ($(#[$doc:meta])* $op:ident $function:ident $method:ident) => {
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $op;

        $(#[$doc])*
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let a = g.input("a", [dim("x", 2)], I32);
        #[doc = concat!("assert_eq!(mesh_ops::elementwise::", stringify!($function), "(a, 3).dtype(), I32);")]
        /// ```
        #[track_caller]
        pub fn $function<'g>(a: Tensor<'g>, b: impl Operand<'g>) -> Tensor<'g> {
            map($op, &[a, b.beside(a)])
        }

        impl Elementwise for $op {
            const NAME: &'static str = stringify!($function);
            const ARITY: usize = 2;
            fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
                whole(Self::NAME, inputs)
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

of_bits! {
    /// The bits that both have; i32.
    BitAnd bit_and and
}
of_bits! {
    /// The bits that either has; i32.
    BitOr bit_or or
}
of_bits! {
    /// The bits that one of both has; i32.
    BitXor bit_xor xor
}
of_bits! {
    /// The bits of `a` moved up by `b` places; i32. Zeros come in.
    ShiftLeft shift_left shift_left
}
of_bits! {
    /// The bits of `a` moved down by `b` places; i32. Copies of the sign come in, so it is
    /// `floor(a / 2^b)`.
    ShiftRight shift_right shift_right
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BitNot;

/// The bits that `a` has not; i32. It is `-1 - a`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let a = g.input("a", [dim("x", 2)], I32);
/// assert_eq!(mesh_ops::elementwise::bit_not(a).dtype(), I32);
/// ```
#[track_caller]
pub fn bit_not(a: Tensor<'_>) -> Tensor<'_> {
    map(BitNot, &[a])
}

impl Elementwise for BitNot {
    const NAME: &'static str = "bit_not";
    const ARITY: usize = 1;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        whole(Self::NAME, inputs)
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
            &Elements::<Map<BitAnd>>(|_, x, _| by_bits(x, |a, b| a * b)),
            &Elements::<Map<BitOr>>(|_, x, _| by_bits(x, |a, b| a.max(b))),
            &Elements::<Map<BitXor>>(|_, x, _| by_bits(x, |a, b| (a - b).abs())),
            &Elements::<Map<BitNot>>(|_, x, _| -1.0 - x[0]),
            &Elements::<Map<ShiftLeft>>(|_, x, _| match (0.0..32.0).contains(&x[1]) {
                true => x[0] * x[1].exp2(),
                false => 0.0,
            }),
            &Elements::<Map<ShiftRight>>(|_, x, _| match (0.0..32.0).contains(&x[1]) {
                true => (x[0] / x[1].exp2()).floor(),
                false => x[0].min(0.0).signum() * f64::from(u8::from(x[0] < 0.0)),
            }),
        ],
        cases: || {
            vec![
                of_integers("bit_and", |a, b| bit_and(a, b)),
                of_integers("bit_or", |a, b| bit_or(a, b)),
                of_integers("bit_xor", |a, b| bit_xor(a, b)),
                Case::new("bit_not", |_, x| bit_not(x[0]))
                    .integers("x", "p:4;q:6", I32)
                    .meshes(FEW),
                shifted("shift_left", |a, b| shift_left(a, b)),
                shifted("shift_right", |a, b| shift_right(a, b)),
            ]
        },
    };

    fn shifted(name: &str, function: Binary) -> Case {
        let many = [7.0, -1.0, f64::from(i32::MIN), f64::from(i32::MAX), -1234.0, 0.0];
        Case::new(name, move |_, x| function(x[0], x[1]))
            .input("x", "p:4;q:6", I32, Fill::Values(many.to_vec()))
            .input("by", "p:4", I32, Fill::Values(vec![0.0, 3.0, 31.0, 32.0]))
            .meshes(FEW)
    }

    /// A number from its bits, each from those of both.
    fn by_bits(x: &[f64], function: fn(f64, f64) -> f64) -> f64 {
        let bit = |x: f64, k: i32| (x / f64::from(k).exp2()).floor().rem_euclid(2.0);
        let worth = |k: i32| if k == 31 { -f64::from(k).exp2() } else { f64::from(k).exp2() };
        (0..32).map(|k| function(bit(x[0], k), bit(x[1], k)) * worth(k)).sum()
    }
}
