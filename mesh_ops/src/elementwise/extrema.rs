//! `maximum`, `minimum`, `clip`; numbers.
//!
//! | function | gradient | convention |
//! |---|---|---|
//! | `maximum(a, b)`, `minimum(a, b)` | `dy` to the one that won | a tie gives half to each |
//! | `clip(x, low, high)` | `dy` where `low <= x <= high` | the bounds themselves let it pass |
//!
//! NaN of either input is NaN; there the gradient is 0. None is linear, but the gradients are
//! linear in dy.

use super::{Elementwise, Linear, map, number};
use crate::room::*;
use mesh_core::program::{Expr, Scalar};

macro_rules! extremum {
    ($op:ident $function:ident $value:ident $what:literal) => {
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $op;

        #[doc = concat!("The ", $what, " of two tensors, element by element; NaN if either is.")]
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let (a, b) = (g.fill(1.0, [dim("r", 2)], F32), g.fill(2.0, [dim("c", 3)], F32));
        #[doc = concat!("let y = mesh_ops::elementwise::", stringify!($function), "(a, b);")]
        /// assert_eq!(y.shape().to_string(), "[r:2, c:3]");
        /// ```
        #[track_caller]
        pub fn $function<'g>(a: Tensor<'g>, b: impl Operand<'g>) -> Tensor<'g> {
            map($op, &[a, b.beside(a)])
        }

        impl Elementwise for $op {
            const NAME: &'static str = stringify!($function);
            const ARITY: usize = 2;
            fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
                number(Self::NAME, inputs)
            }
            fn expr(&self, x: Vec<Expr>) -> Expr {
                x[0].clone().$value(x[1].clone())
            }
            fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
                let won = |own, other| map(Won::$op, &[own, other, dy]);
                Ok(vec![Some(won(x[0], x[1])), Some(won(x[1], x[0]))])
            }
        }
    };
}

extremum! { Maximum maximum max "greater" }
extremum! { Minimum minimum min "lesser" }

/// Of (own, other, dy): dy where own won, half of it at a tie, else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Won {
    Maximum,
    Minimum,
}

impl Elementwise for Won {
    const NAME: &'static str = "extremum_gradient";
    const ARITY: usize = 3;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (own, other, dy) = (x[0].clone(), x[1].clone(), x[2].clone());
        let tie = own.clone().equal(other.clone());
        let won = match self {
            Self::Maximum => own.greater(other),
            Self::Minimum => own.less(other),
        };
        won.select(dy.clone(), tie.select(0.5 * dy, 0.0))
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Adds, &[&[2]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![None, None, Some(map(*self, &[x[0], x[1], dy]))])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Clip {
    low: Scalar,
    high: Scalar,
}

/// `x` moved to the nearest number between `low` and `high`. A bound may be infinite; for i32 the
/// bounds are the whole numbers between them.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::clip(x, 0.0, 1.0).shape(), x.shape());
/// ```
#[track_caller]
pub fn clip(x: Tensor<'_>, low: f64, high: f64) -> Tensor<'_> {
    let whole = x.dtype() == DType::I32;
    let (low, high) = if whole { (low.ceil(), high.floor()) } else { (low, high) };
    let bound = |value| Scalar::new(DType::F64, value);
    map(Clip { low: bound(low), high: bound(high) }, &[x])
}

impl Elementwise for Clip {
    const NAME: &'static str = "clip";
    const ARITY: usize = 1;
    fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
        let (low, high) = (self.low.value(), self.high.value());
        if low <= high {
            return number(Self::NAME, inputs);
        }
        Err(OpError::new(format!("clip needs low <= high, not {low} and {high}")))
    }
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().max(self.low.value()).min(self.high.value())
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let inside = ClipGradient { low: self.low, high: self.high };
        Ok(vec![Some(map(inside, &[x[0], dy]))])
    }
}

/// `dy` where x is between the bounds, else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClipGradient {
    low: Scalar,
    high: Scalar,
}

impl Elementwise for ClipGradient {
    const NAME: &'static str = "clip_gradient";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        let (x, dy) = (x[0].clone(), x[1].clone());
        let above = x.clone().greater_equal(self.low.value());
        above.and(x.less_equal(self.high.value())).select(dy, 0.0)
    }
    fn linear(&self, _: &[DType]) -> Linear {
        (Linearity::Moves, &[&[1]])
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        Ok(vec![None, Some(map(*self, &[x[0], dy]))])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;
    use std::cmp::Ordering;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<Maximum>>(|_, x, _| extreme(x, x[0] > x[1])),
            &Elements::<Map<Minimum>>(|_, x, _| extreme(x, x[0] < x[1])),
            &Elements::<Map<Won>>(|Map(won), x, _| {
                let sign = if *won == Won::Maximum { 1.0 } else { -1.0 };
                match (sign * x[0]).partial_cmp(&(sign * x[1])) {
                    Some(Ordering::Greater) => x[2],
                    Some(Ordering::Equal) => 0.5 * x[2],
                    _ => 0.0,
                }
            }),
            &Elements::<Map<Clip>>(|Map(Clip { low, high }), x, _| {
                if x[0].is_nan() { x[0] } else { x[0].clamp(low.value(), high.value()) }
            }),
            &Elements::<Map<ClipGradient>>(|Map(ClipGradient { low, high }), x, _| {
                if (low.value()..=high.value()).contains(&x[0]) { x[1] } else { 0.0 }
            }),
        ],
        cases: || {
            vec![
                unary("clip", |x| clip(x, -1.7, 1.7), F32, Fill::Distinct),
                Case::new("clip: i32", |_, x| clip(x[0], -1.0, 2.0))
                    .integers("x", "p:4", I32)
                    .meshes(FEW),
                Case::new("maximum with ties", |_, x| maximum(x[0], x[1]))
                    .without_gradient()
                    .integers("x", "p:4;q:6", F32)
                    .integers("y", "q:6", F32)
                    .meshes(FEW),
                of_floats("maximum", |a, b| maximum(a, b)),
                of_floats("minimum", |a, b| minimum(a, b)),
                of_integers("maximum: i32", |a, b| maximum(a, b)),
                of_integers("minimum: i32", |a, b| minimum(a, b)),
            ]
        },
    };

    /// NaN if either is.
    fn extreme(x: &[f64], first: bool) -> f64 {
        match (x[0].is_nan() || x[1].is_nan(), first) {
            (true, _) => f64::NAN,
            (false, true) => x[0],
            (false, false) => x[1],
        }
    }

    fn of_floats(name: &str, function: Binary) -> Case {
        Case::new(name, move |_, x| function(x[0], x[1]))
            .input("x", "p:4;q:6", F32, Fill::Distinct)
            .input("y", "q:6", F32, Fill::Values(vec![0.3, -0.2, 0.7]))
            .meshes(FEW)
    }
}
