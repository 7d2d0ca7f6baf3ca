//! Ops as methods of tensors.

use crate::{Cumulative, Order};
use mesh_core::graph::{Operand, Tensor};
use mesh_core::names::{DType, DimName, Dimension, Shape};

macro_rules! methods {
    ($($name:ident ( $($arg:ident : $ty:ty),* ) = $($path:ident)::+;)*) => {
        /// The ops that read well as methods; each is the function of its name.
        #[expect(clippy::wrong_self_convention, reason = "tensors are copied")]
        pub trait Ops<'g>: Sized {
            $(
                #[doc = concat!("See [`", stringify!($name), "`](crate", $("::", stringify!($path),)+ ").")]
                #[track_caller]
                fn $name(self, $($arg: $ty),*) -> Tensor<'g>;
            )*
            /// See [`top_k`](crate::top_k).
            #[track_caller]
            fn top_k(self, dim: Dimension, k: Dimension) -> (Tensor<'g>, Tensor<'g>);
            /// See [`top_1`](crate::top_1).
            #[track_caller]
            fn top_1(self, dim: Dimension) -> (Tensor<'g>, Tensor<'g>);
            /// The sum over every dim.
            #[track_caller]
            fn sum_all(self) -> Tensor<'g>;
            /// The mean over every dim.
            #[track_caller]
            fn mean(self) -> Tensor<'g>;
        }

        impl<'g> Ops<'g> for Tensor<'g> {
            $(fn $name(self, $($arg: $ty),*) -> Tensor<'g> { crate::$($path)::+(self, $($arg),*) })*
            fn top_k(self, dim: Dimension, k: Dimension) -> (Tensor<'g>, Tensor<'g>) {
                crate::top_k(self, dim, k)
            }
            fn top_1(self, dim: Dimension) -> (Tensor<'g>, Tensor<'g>) {
                crate::top_1(self, dim)
            }
            fn sum_all(self) -> Tensor<'g> {
                crate::reduce::sum(self, self.shape())
            }
            fn mean(self) -> Tensor<'g> {
                crate::reduce::mean(self, self.shape())
            }
        }
    };
}

methods! {
    cast(dtype: DType) = elementwise::cast;
    equal(other: impl Operand<'g>) = elementwise::equal;
    not_equal(other: impl Operand<'g>) = elementwise::not_equal;
    less(other: impl Operand<'g>) = elementwise::less;
    less_equal(other: impl Operand<'g>) = elementwise::less_equal;
    greater(other: impl Operand<'g>) = elementwise::greater;
    greater_equal(other: impl Operand<'g>) = elementwise::greater_equal;
    relu() = elementwise::relu;
    square() = elementwise::square;
    sqrt() = elementwise::sqrt;
    rsqrt() = elementwise::rsqrt;
    reciprocal() = elementwise::reciprocal;
    pow(power: impl Operand<'g>) = elementwise::pow;
    powf(power: f64) = elementwise::powf;
    exp() = elementwise::exp;
    log() = elementwise::log;
    expm1() = elementwise::expm1;
    log1p() = elementwise::log1p;
    erf() = elementwise::erf;
    erfc() = elementwise::erfc;
    sin() = elementwise::sin;
    cos() = elementwise::cos;
    tan() = elementwise::tan;
    atan() = elementwise::atan;
    tanh() = elementwise::tanh;
    exp2() = elementwise::exp2;
    log2() = elementwise::log2;
    log10() = elementwise::log10;
    sigmoid() = elementwise::sigmoid;
    softplus() = elementwise::softplus;
    log_sigmoid() = elementwise::log_sigmoid;
    mish() = elementwise::mish;
    swish() = elementwise::swish;
    gelu() = elementwise::gelu;
    gelu_exact() = elementwise::gelu_exact;
    leaky_relu(alpha: f64) = elementwise::leaky_relu;
    elu() = elementwise::elu;
    selu() = elementwise::selu;
    abs() = elementwise::abs;
    sign() = elementwise::sign;
    floor() = elementwise::floor;
    ceil() = elementwise::ceil;
    round() = elementwise::round;
    trunc() = elementwise::trunc;
    is_nan() = elementwise::is_nan;
    is_finite() = elementwise::is_finite;
    nan_to_num() = elementwise::nan_to_num;
    maximum(other: impl Operand<'g>) = elementwise::maximum;
    minimum(other: impl Operand<'g>) = elementwise::minimum;
    clip(low: f64, high: f64) = elementwise::clip;
    floordiv(divisor: impl Operand<'g>) = elementwise::floordiv;
    modulo(divisor: impl Operand<'g>) = elementwise::modulo;
    logical_and(other: Tensor<'g>) = elementwise::logical_and;
    logical_or(other: Tensor<'g>) = elementwise::logical_or;
    logical_not() = elementwise::logical_not;
    select(yes: impl Operand<'g>, no: impl Operand<'g>) = elementwise::select;

    einsum(others: &[Tensor<'g>], output: impl IntoIterator<Item = Dimension>) = einsum::einsum;
    contract(others: &[Tensor<'g>], reduced: impl IntoIterator<Item = Dimension>) = einsum::contract;
    matmul(others: &[Tensor<'g>]) = einsum::matmul;

    sum(dims: impl IntoIterator<Item = Dimension>) = reduce::sum;
    mean_over(dims: impl IntoIterator<Item = Dimension>) = reduce::mean;
    variance(dims: impl IntoIterator<Item = Dimension>) = reduce::variance;
    prod(dims: impl IntoIterator<Item = Dimension>) = reduce::prod;
    max(dims: impl IntoIterator<Item = Dimension>) = reduce::max;
    min(dims: impl IntoIterator<Item = Dimension>) = reduce::min;
    all(dims: impl IntoIterator<Item = Dimension>) = reduce::all;
    any(dims: impl IntoIterator<Item = Dimension>) = reduce::any;
    argmax(dim: Dimension) = argmax;
    argmin(dim: Dimension) = argmin;
    nth_largest(n: usize, dim: Dimension) = nth_largest;
    nth_smallest(n: usize, dim: Dimension) = nth_smallest;
    sort(dim: Dimension, order: Order) = sort;
    argsort(dim: Dimension, order: Order) = argsort;
    cumsum(dim: Dimension) = cumsum;
    cumprod(dim: Dimension) = cumprod;
    cumsum_with(dim: Dimension, taken: Cumulative) = cumsum_with;
    gather(indices: Tensor<'g>, dim: Dimension) = gather;
    update_at(dim: Dimension, index: Tensor<'g>, row: Tensor<'g>) = update_at;
    reverse(dim: Dimension) = reverse;

    broadcast(shape: &Shape) = broadcast;
    transpose(dims: impl IntoIterator<Item = Dimension>) = transpose;
    reshape(dims: impl IntoIterator<Item = Dimension>) = reshape;
    rename(dim: Dimension, name: &str) = rename;
    slice(dim: Dimension, begin: usize) = slice;
    pad(dim: Dimension, low: usize, high: usize) = pad;
    concat(others: &[Tensor<'g>], name: impl Into<DimName>) = concat;
    stack(others: &[Tensor<'g>], name: impl Into<DimName>) = stack;
    pick(dim: Dimension, index: usize) = pick;
    replace_dims(old: impl IntoIterator<Item = Dimension>, new: impl IntoIterator<Item = Dimension>) = replace_dims;
    merge_dims(dims: impl IntoIterator<Item = Dimension>, name: &str) = merge_dims;
    shift(dim: Dimension, offset: i64, wrap: bool) = shift;
    tile(dim: Dimension, times: usize) = tile;
    repeat(dim: Dimension, times: usize) = repeat;
    flip(dims: impl IntoIterator<Item = Dimension>) = flip;
    roll(dim: Dimension, by: i64) = roll;
    tril(rows: Dimension, columns: Dimension, k: i32) = tril;
    triu(rows: Dimension, columns: Dimension, k: i32) = triu;
    take_along(indices: Tensor<'g>, dim: Dimension) = take_along;
    one_hot(dim: Dimension, dtype: DType) = one_hot;

    conv(filter: Tensor<'g>, conv: &crate::conv::Conv) = conv::conv;
    conv_transpose(filter: Tensor<'g>, conv: &crate::conv::Conv) = conv::conv_transpose;

    dropout(rate: f64) = random::dropout;
    dropout_over(rate: f64, dims: impl IntoIterator<Item = Dimension>) = random::dropout_over;
    multiplicative_jitter(epsilon: f64) = random::multiplicative_jitter;
    sample_with_temperature(dim: Dimension, temperature: f64) = random::sample_with_temperature;
    windows(dim: Dimension, window: Dimension, stride: usize, pads: [usize; 2]) = windows;
    max_pool(pool: &crate::pool::Pool) = pool::max_pool;
    avg_pool(pool: &crate::pool::Pool) = pool::avg_pool;
    resize(resize: &crate::resize::Resize) = resize::resize;

    dense(output: Dimension, name: &str) = layers::dense;
    softmax(dim: Dimension) = layers::softmax;
    log_softmax(dim: Dimension) = layers::log_softmax;
    logsumexp(dim: Dimension) = layers::logsumexp;
    softmax_cross_entropy(targets: Tensor<'g>, classes: Dimension) = layers::softmax_cross_entropy;
}
