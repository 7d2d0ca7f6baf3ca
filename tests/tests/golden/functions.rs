//! More functions of single elements, and activations that halve a dim.

use crate::Builder;
use mesh_ops::elementwise::*;
use mesh_ops::prelude::*;
use mesh_ops::{glu, swiglu};

/// Functions whose ends are looked at together.
#[rustfmt::skip]
const AT_THE_ENDS: &[for<'g> fn(Tensor<'g>) -> Tensor<'g>] = &[
    ceil, trunc, round, floor, abs, sign, square, reciprocal, sqrt, rsqrt, cbrt, exp, exp2, expm1,
    log, log2, log10, log1p, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh,
    atanh, erf, erfc, erfinv, lgamma, sigmoid, log_sigmoid, softplus, relu, relu6, elu,
    selu, swish, mish, gelu, gelu_exact, softsign, hard_tanh, hard_sigmoid, hard_swish,
];

/// Builders of `functions.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("ceil", |i| vec![ceil(i.x[0])]),
    ("round", |i| vec![round(i.x[0])]),
    ("trunc", |i| vec![trunc(i.x[0])]),
    ("tan", |i| vec![tan(i.x[0])]),
    ("asin", |i| vec![asin(i.x[0])]),
    ("acos", |i| vec![acos(i.x[0])]),
    ("atan", |i| vec![atan(i.x[0])]),
    ("sinh", |i| vec![sinh(i.x[0])]),
    ("cosh", |i| vec![cosh(i.x[0])]),
    ("asinh", |i| vec![asinh(i.x[0])]),
    ("log1mexp", |i| vec![log1mexp(i.x[0])]),
    ("acosh", |i| vec![acosh(i.x[0])]),
    ("atanh", |i| vec![atanh(i.x[0])]),
    ("exp2", |i| vec![exp2(i.x[0])]),
    ("log2", |i| vec![log2(i.x[0])]),
    ("log10", |i| vec![log10(i.x[0])]),
    ("cbrt", |i| vec![cbrt(i.x[0])]),
    ("lgamma", |i| vec![lgamma(i.x[0])]),
    ("digamma", |i| vec![digamma(i.x[0])]),
    ("erfinv", |i| vec![erfinv(i.x[0])]),
    ("log_sigmoid", |i| vec![log_sigmoid(i.x[0])]),
    ("softsign", |i| vec![softsign(i.x[0])]),
    ("mish", |i| vec![mish(i.x[0])]),
    ("relu6", |i| vec![relu6(i.x[0])]),
    ("hard_tanh", |i| vec![hard_tanh(i.x[0])]),
    ("hard_sigmoid", |i| vec![hard_sigmoid(i.x[0])]),
    ("hard_swish", |i| vec![hard_swish(i.x[0])]),
    ("is_nan", |i| vec![is_nan(i.x[0])]),
    ("is_inf", |i| vec![is_inf(i.x[0])]),
    ("is_finite", |i| vec![is_finite(i.x[0])]),
    ("erfc", |i| vec![erfc(i.x[0])]),
    ("nan_to_num", |i| vec![clip(nan_to_num(i.x[0]), -1e6, 1e6)]),
    ("at_infinities", |i| {
        AT_THE_ENDS.iter().map(|function| function(i.x[0]).stop_gradient()).collect()
    }),
    ("pairs_at_the_ends", |i| {
        let all = [maximum, minimum, logaddexp, equal, less, greater_equal];
        all.map(|function| function(i.x[0], i.x[1]).stop_gradient()).to_vec()
    }),
    ("celu", |i| vec![celu(i.x[0], i.number("alpha"))]),
    ("prelu", |i| vec![prelu(i.x[0], i.x[1])]),
    ("glu", |i| vec![glu(i.x[0], i.dim("q"))]),
    ("swiglu", |i| vec![swiglu(i.x[0], i.dim("q"))]),
    ("atan2", |i| vec![atan2(i.x[0], i.x[1])]),
    ("logaddexp", |i| vec![logaddexp(i.x[0], i.x[1])]),
    ("xlogy", |i| vec![xlogy(i.x[0], i.x[1])]),
    ("copysign", |i| vec![copysign(i.x[0], i.x[1])]),
    ("hypot", |i| vec![hypot(i.x[0], i.x[1])]),
    ("lerp", |i| vec![lerp(i.x[0], i.x[1], i.x[2])]),
    ("bits", |i| {
        let (a, b) = (i.x[0], i.x[1]);
        vec![bit_and(a, b), bit_or(a, b), bit_xor(a, b), bit_not(a)]
    }),
    ("shifts", |i| vec![shift_left(i.x[0], i.x[1]), shift_right(i.x[0], i.x[1])]),
    ("logical_xor", |i| vec![logical_xor(i.x[0], i.x[1])]),
];

/// Builders of `torch_functions.json`.
pub(crate) const TORCH: &[Builder] =
    &[("digamma_at_the_ends", |i| vec![digamma(i.x[0]).stop_gradient()])];
