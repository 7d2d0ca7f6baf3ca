//! What kind of number a float is: `is_nan`, `is_inf`, `is_finite`; `nan_to_num` puts numbers in the place of
//! others, `copysign` takes the sign of another.
//!
//! | function | gradient | |
//! |---|---|---|
//! | `is_nan(x)`, `is_inf(x)`, `is_finite(x)`, bool | none | |
//! | `copysign(a, b)` | `dy` to a if the signs are equal, else `-dy`; none to b | zeros have a sign |
//!
//! None is linear.

use super::{Elementwise, clip, map, select, sign};
use crate::room::*;
use mesh_core::program::Expr;

/// A truth of one float.
macro_rules! predicate {
    ($(#[$doc:meta])* $op:ident $function:ident; |$x:ident| $value:expr) => {
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct $op;

        $(#[$doc])*
        ///
        /// ```
        /// # use mesh_ops::prelude::*;
        /// # let g = mesh_ops::graph();
        /// let x = g.input("x", [dim("x", 2)], F32);
        #[doc = concat!("assert_eq!(mesh_ops::elementwise::", stringify!($function), "(x).dtype(), Bool);")]
        /// ```
        #[track_caller]
        pub fn $function(x: Tensor<'_>) -> Tensor<'_> {
            map($op, &[x])
        }

        impl Elementwise for $op {
            const NAME: &'static str = stringify!($function);
            const ARITY: usize = 1;
            fn dtype(&self, inputs: &[DType]) -> Result<DType, OpError> {
                super::float(Self::NAME, inputs)?;
                Ok(DType::Bool)
            }
            fn expr(&self, x: Vec<Expr>) -> Expr {
                let $x = x[0].clone();
                $value
            }
            fn gradient<'g>(&self, _: &[Tensor<'g>], _: Tensor<'g>, _: Tensor<'g>) -> Grads<'g> {
                Ok(vec![None])
            }
        }
    };
}

predicate! {
    /// Whether `x` is not a number.
    IsNan is_nan; |x| x.clone().not_equal(x)
}
predicate! {
    /// Whether `x` is infinite, of either sign.
    IsInf is_inf; |x| x.abs().equal(f64::INFINITY)
}
predicate! {
    /// Whether `x` is a number and not infinite.
    IsFinite is_finite; |x| x.abs().less(f64::INFINITY)
}

/// The greatest finite number of a dtype.
fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::MAX),
        DType::BF16 => half::bf16::MAX.to_f64(),
        _ => f64::MAX,
    }
}

/// `x` with 0 in the place of NaN, and the greatest or the least finite number of its dtype in the place of
/// infinities.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 2)], F32);
/// assert_eq!(mesh_ops::elementwise::nan_to_num(x).shape(), x.shape());
/// ```
#[track_caller]
pub fn nan_to_num(x: Tensor<'_>) -> Tensor<'_> {
    let most = greatest(x.dtype());
    select(is_nan(x), 0, clip(x, -most, most))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Copysign;

/// `|a|` with the sign of `b`, whose zeros have one, and in which NaN counts as positive; floats.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (a, b) = (g.fill(2.0, [dim("r", 2)], F32), g.fill(-0.0, [dim("c", 3)], F32));
/// assert_eq!(mesh_ops::elementwise::copysign(a, b).shape().to_string(), "[r:2, c:3]");
/// ```
#[track_caller]
pub fn copysign<'g>(a: Tensor<'g>, b: impl Operand<'g>) -> Tensor<'g> {
    map(Copysign, &[a, b.beside(a)])
}

impl Elementwise for Copysign {
    const NAME: &'static str = "copysign";
    const ARITY: usize = 2;
    fn expr(&self, x: Vec<Expr>) -> Expr {
        x[0].clone().copysign(x[1].clone())
    }
    fn gradient<'g>(&self, x: &[Tensor<'g>], _: Tensor<'g>, dy: Tensor<'g>) -> Grads<'g> {
        let of_b = copysign(dy.scalar_like(1.0), x[1]);
        Ok(vec![Some(dy * (sign(x[0]) * of_b)), None])
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof {
    use super::*;
    use crate::testing::proof::*;

    pub(crate) static PROOF: Proof = Proof {
        meanings: &[
            &Elements::<Map<IsNan>>(|_, x, _| f64::from(x[0].is_nan())),
            &Elements::<Map<IsInf>>(|_, x, _| f64::from(x[0].is_infinite())),
            &Elements::<Map<IsFinite>>(|_, x, _| f64::from(x[0].is_finite())),
            &Elements::<Map<Copysign>>(|_, x, _| x[0].copysign(x[1])),
        ],
        cases: || {
            vec![
                unary("is_nan", |x| is_nan(x), F32, edges()).without_gradient(),
                unary("is_inf", |x| is_inf(x), F32, edges()).without_gradient(),
                unary("is_finite", |x| is_finite(x), F32, edges()).without_gradient(),
                unary("is_finite: f64", |x| is_finite(x), F64, edges()).without_gradient(),
                unary("nan_to_num: edges", |x| nan_to_num(x), F32, edges())
                    .shows("nan_to_num")
                    .composed()
                    .computes(|x, ty| {
                        let most = f64::from(f32::MAX);
                        let number = |x: f64| if x.is_nan() { 0.0 } else { x.clamp(-most, most) };
                        Dense { ty: ty.clone(), ..x[0].clone().map(number) }
                    })
                    .without_gradient(),
                unary("nan_to_num", |x| nan_to_num(x), F32, Fill::Normal)
                    .composed()
                    .computes(|x, _| x[0].clone()),
                Case::new("copysign", |_, x| copysign(x[0], x[1]))
                    .away_from_zero("a", "p:4;q:6", F32)
                    .away_from_zero("b", "q:6", F32)
                    .meshes(FEW),
                Case::new("copysign: edges", |_, x| copysign(x[0], x[1]))
                    .without_gradient()
                    .input("a", "p:4;q:6", F32, edges())
                    .input("b", "q:6", F32, Fill::Values(vec![0.0, -0.0, f64::INFINITY, -2.0]))
                    .meshes(FEW),
            ]
        },
    };

    fn edges() -> Fill {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        Fill::Values(vec![1.5, inf, -2.0, nan, 0.0, -inf, f64::from(f32::MAX), -0.0])
    }
}
