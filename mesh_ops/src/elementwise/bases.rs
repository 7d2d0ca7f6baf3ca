//! Powers and logarithms to other bases than e: `exp2`, `log2`, `log10`; and sums and products in logarithms:
//! `logaddexp`, `xlogy`.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `exp2(x) = 2^x` | `y ln(2) dy` | |
//! | `log2(x)` | `dy / (x ln(2))` | -inf at 0, NaN below |
//! | `log10(x)` | `dy / (x ln(10))` | -inf at 0, NaN below |
//! | `logaddexp(a, b) = log(exp(a) + exp(b))` | `sigmoid(a - b) dy` to a, `sigmoid(b - a) dy` to b | half to each of equal infinities |
//! | `xlogy(x, y) = x log(y)` | `log(y) dy` to x, `x / y dy` to y | 0 where x is 0, unless y is NaN |
//!
//! None is linear.

use super::unary::unary;
use super::{Elementwise, equal, log, map, select, sigmoid};
use crate::room::*;
use mesh_core::program::Expr;
use std::f64::consts::{LN_2, LN_10};

unary! {
    /// 2 to the x.
    Exp2 exp2 float;
    value |x| x.exp2();
    gradient |_, y, dy| Some(dy * (LN_2 * y));

    /// Logarithm to base two.
    Log2 log2 float;
    value |x| x.log2();
    gradient |x, _, dy| Some(dy / (LN_2 * x));

    /// Logarithm to base ten.
    Log10 log10 float;
    value |x| x.log10();
    gradient |x, _, dy| Some(dy / (LN_10 * x));
}

/// A function of two tensors.
macro_rules! of_two {
    ($(#[$doc:meta])* $op:ident $function:ident) => {
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $op;

        $(#[$doc])*
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let (a, b) = (g.fill(2.0, [dim("r", 2)], F32), g.fill(3.0, [dim("c", 3)], F32));
        #[doc = concat!("let y = mesh_ops::elementwise::", stringify!($function), "(a, b);")]
        /// assert_eq!(y.shape().to_string(), "[r:2, c:3]");
        /// ```
        #[track_caller]
        pub fn $function<'g>(a: Tensor<'g>, b: impl Operand<'g>) -> Tensor<'g> {
            map($op, &[a, b.beside(a)])
        }
    };
}

of_two! {
    /// `log(exp(a) + exp(b))`, without the powers, which might overflow; floats.
    Logaddexp logaddexp
}
of_two! {
    /// `a log(b)`, and 0 where `a` is 0, as in an entropy; floats.
    Xlogy xlogy
}

impl Elementwise for Logaddexp {
    const NAME: &'static str = "logaddexp";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (a, b) = (x[0].clone(), x[1].clone());
        let more = (-(a.clone() - b.clone()).abs()).exp().log1p();
        // Equal infinities have no difference.
        let more = a.clone().equal(b.clone()).select(LN_2, more);
        a.max(b) + more
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let (a, b) = (x[0], x[1]);
        let ahead = select(equal(a, b), 0, a - b);
        Ok(vec![Some(dy * sigmoid(ahead)), Some(dy * sigmoid(-ahead))])
    }
}

impl Elementwise for Xlogy {
    const NAME: &'static str = "xlogy";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (x, y) = (x[0].clone(), x[1].clone());
        let nothing = x.clone().equal(0.0).and(y.clone().equal(y.clone()));
        nothing.select(0.0, x * y.log())
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let (x, y) = (x[0], x[1]);
        Ok(vec![Some(dy * log(y)), Some(dy * (x / y))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Exp2>>(|_, x, _| x[0].exp2()),
            &Elements::<Map<Log2>>(|_, x, _| x[0].log2()),
            &Elements::<Map<Log10>>(|_, x, _| x[0].log10()),
            &Elements::<Map<Logaddexp>>(|_, x, _| {
                if x[0].is_nan() || x[1].is_nan() {
                    return f64::NAN;
                }
                let (most, least) = (x[0].max(x[1]), x[0].min(x[1]));
                if most == least { most + LN_2 } else { most + (least - most).exp().ln_1p() }
            }),
            &Elements::<Map<Xlogy>>(|_, x, _| match x[0] == 0.0 && !x[1].is_nan() {
                true => 0.0,
                false => x[0] * x[1].ln(),
            }),
        ],
        cases: || {
            let positive = Fill::Between(0.25, 4.0);
            vec![
                unary("exp2", |x| exp2(x), F32, Fill::Normal),
                unary("log2", |x| log2(x), F32, positive.clone()),
                unary("log10", |x| log10(x), F32, positive.clone()),
                Case::new("logaddexp", |_, x| logaddexp(x[0], x[1]))
                    .normal("a", "p:4;q:6", F32)
                    .normal("b", "q:6", F32)
                    .meshes(FEW),
                Case::new("xlogy", |_, x| xlogy(x[0], x[1]))
                    .away_from_zero("x", "p:4;q:6", F32)
                    .input("y", "q:6", F32, positive)
                    .meshes(FEW),
                Case::new("logaddexp: of infinities", |_, x| logaddexp(x[0], x[1]))
                    .without_gradient()
                    .input("a", "p:4", F32, Fill::Values(vec![f64::INFINITY, -1.0, f64::NAN]))
                    .input("b", "q:2", F32, Fill::Values(vec![f64::INFINITY, f64::NEG_INFINITY]))
                    .meshes(FEW),
                Case::new("xlogy: of nothing", |_, x| xlogy(x[0], x[1]))
                    .without_gradient()
                    .input("x", "p:4", F32, Fill::Values(vec![0.0, -1.0]))
                    .input("y", "q:4", F32, Fill::Values(vec![0.0, f64::INFINITY, f64::NAN, -1.0]))
                    .meshes(FEW),
            ]
        },
    };
}
