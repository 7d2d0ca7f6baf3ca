//! Ops as methods of tensors.

use crate::{broadcast, einsum, elementwise, reduce, transpose};
use mesh_core::graph::Tensor;
use mesh_core::names::{DType, Dimension, Shape};

macro_rules! methods {
    ($($room:ident :: $name:ident ( $($arg:ident : $ty:ty),* );)*) => {
        /// The ops that read well as methods; each is the function of its name.
        pub trait Ops<'g>: Sized {
            $(
                #[doc = concat!("See [`", stringify!($room), "::", stringify!($name), "`](crate::", stringify!($room), "::", stringify!($name), ").")]
                #[track_caller]
                fn $name(self, $($arg: $ty),*) -> Tensor<'g>;
            )*
            /// The sum over every dim.
            #[track_caller]
            fn sum_all(self) -> Tensor<'g>;
            /// The mean over every dim.
            #[track_caller]
            fn mean(self) -> Tensor<'g>;
            /// See [`broadcast`](crate::broadcast).
            #[track_caller]
            fn broadcast(self, shape: &Shape) -> Tensor<'g>;
            /// See [`transpose`](crate::transpose).
            #[track_caller]
            fn transpose(self, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g>;
        }

        impl<'g> Ops<'g> for Tensor<'g> {
            $(fn $name(self, $($arg: $ty),*) -> Tensor<'g> { $room::$name(self, $($arg),*) })*
            fn sum_all(self) -> Tensor<'g> {
                reduce::sum(self, self.shape())
            }
            fn mean(self) -> Tensor<'g> {
                reduce::mean(self, self.shape())
            }
            fn broadcast(self, shape: &Shape) -> Tensor<'g> {
                broadcast(self, shape)
            }
            fn transpose(self, dims: impl IntoIterator<Item = Dimension>) -> Tensor<'g> {
                transpose(self, dims)
            }
        }
    };
}

methods! {
    elementwise::relu();
    elementwise::cast(dtype: DType);
    elementwise::equal(other: Tensor<'g>);
    elementwise::square();
    elementwise::sqrt();
    elementwise::rsqrt();
    elementwise::reciprocal();
    elementwise::pow(power: Tensor<'g>);
    elementwise::powf(power: f64);
    elementwise::exp();
    elementwise::log();
    elementwise::sin();
    elementwise::cos();
    elementwise::tanh();
    elementwise::sigmoid();
    elementwise::softplus();
    elementwise::swish();
    elementwise::gelu();
    elementwise::leaky_relu(alpha: f64);
    elementwise::elu();
    elementwise::selu();
    elementwise::abs();
    elementwise::sign();
    elementwise::floor();
    elementwise::maximum(other: Tensor<'g>);
    elementwise::minimum(other: Tensor<'g>);
    elementwise::clip(low: f64, high: f64);
    elementwise::floordiv(divisor: Tensor<'g>);
    elementwise::modulo(divisor: Tensor<'g>);
    elementwise::logical_and(other: Tensor<'g>);
    elementwise::logical_or(other: Tensor<'g>);
    elementwise::logical_not();
    elementwise::select(yes: Tensor<'g>, no: Tensor<'g>);
    einsum::einsum(others: &[Tensor<'g>], output: impl IntoIterator<Item = Dimension>);
    einsum::contract(others: &[Tensor<'g>], reduced: impl IntoIterator<Item = Dimension>);
    einsum::matmul(others: &[Tensor<'g>]);
    reduce::sum(dims: impl IntoIterator<Item = Dimension>);
    reduce::max(dims: impl IntoIterator<Item = Dimension>);
    reduce::min(dims: impl IntoIterator<Item = Dimension>);
    reduce::all(dims: impl IntoIterator<Item = Dimension>);
    reduce::any(dims: impl IntoIterator<Item = Dimension>);
}
