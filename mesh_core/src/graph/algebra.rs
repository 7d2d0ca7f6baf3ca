//! The few ops that operators and the gradient driver need, supplied from outside.

use super::Tensor;
use crate::names::Shape;

/// Arithmetic on tensors with broadcasting by name. `mesh_ops` implements it; core knows no
/// mathematical op.
pub trait Algebra: Sync {
    /// `a + b`
    #[track_caller]
    fn add<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `a - b`
    #[track_caller]
    fn sub<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `a * b`
    #[track_caller]
    fn mul<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `a / b`
    #[track_caller]
    fn div<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g>;
    /// `-a`
    #[track_caller]
    fn neg<'g>(&self, a: Tensor<'g>) -> Tensor<'g>;
    /// `a` repeated along the dims of `shape` that it lacks.
    #[track_caller]
    fn broadcast<'g>(&self, a: Tensor<'g>, shape: &Shape) -> Tensor<'g>;
}

macro_rules! operator {
    ($($op:ident $method:ident)*) => {$(
        impl<'g> std::ops::$op for Tensor<'g> {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
                self.graph().algebra().$method(self, other)
            }
        }
        impl<'g> std::ops::$op<f64> for Tensor<'g> {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor<'g> {
                self.graph().algebra().$method(self, self.scalar_like(other))
            }
        }
        impl<'g> std::ops::$op<Tensor<'g>> for f64 {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
                other.graph().algebra().$method(other.scalar_like(self), other)
            }
        }
    )*};
}
operator! { Add add Sub sub Mul mul Div div }

impl<'g> std::ops::Neg for Tensor<'g> {
    type Output = Tensor<'g>;
    #[track_caller]
    fn neg(self) -> Tensor<'g> {
        self.graph().algebra().neg(self)
    }
}
