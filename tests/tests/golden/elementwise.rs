//! Functions of single elements.

use crate::Builder;
use mesh_ops::elementwise::*;
use mesh_ops::prelude::*;

/// Builders of `elementwise.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("exp", |i| vec![exp(i.x[0])]),
    ("log", |i| vec![log(i.x[0])]),
    ("sqrt", |i| vec![sqrt(i.x[0])]),
    ("rsqrt", |i| vec![rsqrt(i.x[0])]),
    ("reciprocal", |i| vec![reciprocal(i.x[0])]),
    ("square", |i| vec![square(i.x[0])]),
    ("sin", |i| vec![sin(i.x[0])]),
    ("cos", |i| vec![cos(i.x[0])]),
    ("tanh", |i| vec![tanh(i.x[0])]),
    ("sigmoid", |i| vec![sigmoid(i.x[0])]),
    ("softplus", |i| vec![softplus(i.x[0])]),
    ("swish", |i| vec![swish(i.x[0])]),
    ("gelu", |i| vec![gelu(i.x[0])]),
    ("gelu_exact", |i| vec![gelu_exact(i.x[0])]),
    ("erf", |i| vec![erf(i.x[0])]),
    ("expm1", |i| vec![expm1(i.x[0])]),
    ("log1p", |i| vec![log1p(i.x[0])]),
    ("elu", |i| vec![elu(i.x[0])]),
    ("selu", |i| vec![selu(i.x[0])]),
    ("relu", |i| vec![relu(i.x[0])]),
    ("abs", |i| vec![abs(i.x[0])]),
    ("neg", |i| vec![-i.x[0]]),
    ("sign", |i| vec![sign(i.x[0])]),
    ("floor", |i| vec![floor(i.x[0])]),
    ("powf", |i| vec![powf(i.x[0], i.number("power"))]),
    ("leaky_relu", |i| vec![leaky_relu(i.x[0], i.number("alpha"))]),
    ("clip", |i| vec![clip(i.x[0], i.number("low"), i.number("high"))]),
    ("add", |i| vec![i.x[0] + i.x[1]]),
    ("sub", |i| vec![i.x[0] - i.x[1]]),
    ("mul", |i| vec![i.x[0] * i.x[1]]),
    ("div", |i| vec![i.x[0] / i.x[1]]),
    ("pow", |i| vec![pow(i.x[0], i.x[1])]),
    ("maximum", |i| vec![maximum(i.x[0], i.x[1])]),
    ("minimum", |i| vec![minimum(i.x[0], i.x[1])]),
    ("modulo", |i| vec![modulo(i.x[0], i.x[1])]),
    ("floordiv", |i| vec![floordiv(i.x[0], i.x[1])]),
    ("whole_division", |i| {
        let (x, y) = (i.x[0], i.x[1]);
        vec![x / y, floordiv(x, y), modulo(x, y), floordiv(x, -y), modulo(x, -y)]
    }),
    ("comparisons", |i| {
        let all = [equal, not_equal, less, less_equal, greater, greater_equal];
        all.map(|compare| compare(i.x[0], i.x[1])).to_vec()
    }),
    ("logic", |i| {
        let (x, y) = (i.x[0], i.x[1]);
        vec![logical_and(x, y), logical_or(x, y), logical_not(x)]
    }),
    ("cast", |i| vec![i.x[0].cast(I32), i.x[1].cast(I32), i.x[1].cast(i.float)]),
    ("select", |i| vec![select(i.x[0], i.x[1], i.x[2])]),
];
