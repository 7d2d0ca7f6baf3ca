//! Operators on tensors.

use super::data::Tensor;

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
