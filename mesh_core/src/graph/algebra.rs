//! Operators on tensors, and what may stand beside a tensor: another one, or a number.

use super::data::Tensor;

/// What may stand beside a tensor in arithmetic and comparisons: another tensor of its graph, or a number.
///
/// A number is rounded to the tensor's dtype. One that the dtype cannot hold, such as `0.5` beside i32, is
/// recorded as an error.
///
/// ```
/// # use mesh_core::{graph::Graph, names::{dim, DType}};
/// # fn doc(g: &Graph) {
/// let x = g.input("x", [dim("x", 3)], DType::F32);
/// let y = 2 * x + x / 3.0 - 1;
/// assert_eq!(y.shape(), x.shape());
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside a tensor",
    label = "this is neither a tensor nor a number",
    note = "tensors, `&Tensor`s, floats and integers can"
)]
pub trait Operand<'g>: Copy {
    /// As a tensor beside `other`; a number has the dtype of `other` and no dims.
    #[track_caller]
    fn beside(self, other: Tensor<'g>) -> Tensor<'g>;

    /// The number, if it is one.
    fn number(self) -> Option<f64>;
}

impl<'g> Operand<'g> for Tensor<'g> {
    fn beside(self, _: Tensor<'g>) -> Tensor<'g> {
        self
    }

    fn number(self) -> Option<f64> {
        None
    }
}

impl<'g> Operand<'g> for &Tensor<'g> {
    fn beside(self, _: Tensor<'g>) -> Tensor<'g> {
        *self
    }

    fn number(self) -> Option<f64> {
        None
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl<'g> Operand<'g> for $number {
            #[track_caller]
            fn beside(self, other: Tensor<'g>) -> Tensor<'g> {
                other.scalar_like(self as f64)
            }

            fn number(self) -> Option<f64> {
                Some(self as f64)
            }
        }
    )*};
}
numbers! { f32 f64 i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

macro_rules! operator {
    ($($op:ident $method:ident)*) => {$(
        impl<'g, T: Operand<'g>> std::ops::$op<T> for Tensor<'g> {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: T) -> Tensor<'g> {
                self.graph().algebra().$method(self, other.beside(self))
            }
        }
        impl<'g, T: Operand<'g>> std::ops::$op<T> for &Tensor<'g> {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: T) -> Tensor<'g> {
                std::ops::$op::$method(*self, other)
            }
        }
        // One type of floats and one of integers: with more, the compiler would not know the type of `1 - x`
        // where a method is called on it.
        operator! { $op $method f64 }
        operator! { $op $method i32 }
    )*};
    ($op:ident $method:ident $number:ty) => {
        impl<'g> std::ops::$op<Tensor<'g>> for $number {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
                other.graph().algebra().$method(self.beside(other), other)
            }
        }
        impl<'g> std::ops::$op<&Tensor<'g>> for $number {
            type Output = Tensor<'g>;
            #[track_caller]
            fn $method(self, other: &Tensor<'g>) -> Tensor<'g> {
                std::ops::$op::$method(self, *other)
            }
        }
    };
}
operator! { Add add Sub sub Mul mul Div div }

impl<'g> std::ops::Neg for Tensor<'g> {
    type Output = Tensor<'g>;
    #[track_caller]
    fn neg(self) -> Tensor<'g> {
        self.graph().algebra().neg(self)
    }
}

impl<'g> std::ops::Neg for &Tensor<'g> {
    type Output = Tensor<'g>;
    #[track_caller]
    fn neg(self) -> Tensor<'g> {
        -*self
    }
}
