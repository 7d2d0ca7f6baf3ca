//! Ops as methods of tensors.

use crate::{broadcast, conv, einsum, elementwise, reduce, transpose};
use mesh_core::graph::Tensor;
use mesh_core::names::{DType, DimName, Dimension, Shape};

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
            /// See [`slice`](crate::slice).
            #[track_caller]
            fn slice(self, dim: Dimension, begin: usize) -> Tensor<'g>;
            /// See [`pad`](crate::pad).
            #[track_caller]
            fn pad(self, dim: Dimension, low: usize, high: usize) -> Tensor<'g>;
            /// See [`concat`](crate::concat).
            #[track_caller]
            fn concat(self, others: &[Tensor<'g>], name: impl Into<DimName>) -> Tensor<'g>;
            /// See [`shift`](crate::shift).
            #[track_caller]
            fn shift(self, dim: Dimension, offset: i64, wrap: bool) -> Tensor<'g>;
            /// See [`one_hot`](crate::one_hot).
            #[track_caller]
            fn one_hot(self, dim: Dimension, dtype: DType) -> Tensor<'g>;
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
            fn slice(self, dim: Dimension, begin: usize) -> Tensor<'g> {
                crate::slice(self, dim, begin)
            }
            fn pad(self, dim: Dimension, low: usize, high: usize) -> Tensor<'g> {
                crate::pad(self, dim, low, high)
            }
            fn concat(self, others: &[Tensor<'g>], name: impl Into<DimName>) -> Tensor<'g> {
                crate::concat(self, others, name)
            }
            fn shift(self, dim: Dimension, offset: i64, wrap: bool) -> Tensor<'g> {
                crate::shift(self, dim, offset, wrap)
            }
            fn one_hot(self, dim: Dimension, dtype: DType) -> Tensor<'g> {
                crate::one_hot(self, dim, dtype)
            }
        }
    };
}

methods! {
    elementwise::relu();
    elementwise::cast(dtype: DType);
    elementwise::equal(other: Tensor<'g>);
    einsum::einsum(others: &[Tensor<'g>], output: impl IntoIterator<Item = Dimension>);
    einsum::contract(others: &[Tensor<'g>], reduced: impl IntoIterator<Item = Dimension>);
    einsum::matmul(others: &[Tensor<'g>]);
    conv::conv(filter: Tensor<'g>, conv: &conv::Conv);
    conv::conv_transpose(filter: Tensor<'g>, conv: &conv::Conv);
    reduce::sum(dims: impl IntoIterator<Item = Dimension>);
    reduce::max(dims: impl IntoIterator<Item = Dimension>);
    reduce::min(dims: impl IntoIterator<Item = Dimension>);
    reduce::all(dims: impl IntoIterator<Item = Dimension>);
    reduce::any(dims: impl IntoIterator<Item = Dimension>);
}
