//! Element by element, and random numbers.

use mesh_ops::elementwise::{
    floordiv, hypot, log1mexp, logical_and, logical_not, maximum, minimum, modulo, pow, select,
};
use mesh_ops::prelude::*;
use mesh_ops::random::{
    dropout, random_integer, random_normal, random_truncated_normal, random_uniform,
};

pub(super) fn made<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (a, b, graph) = (x[0], x[x.len().min(2) - 1], x[0].graph());
    Some(match name {
        "add" | "add_bias" | "add_small" | "add_transposed" => a + b,
        "sub" => a - b,
        "mul" => a * b,
        "div" => a / b,
        "neg" => -a,
        "floordiv" => floordiv(a, b),
        "modulo" => modulo(a, b),
        "square" => a.square(),
        "sqrt" => a.sqrt(),
        "rsqrt" => a.rsqrt(),
        "reciprocal" => a.reciprocal(),
        "pow" => pow(a, b),
        "powf" => a.powf(1.7),
        "hypot" => hypot(a, b),
        "exp" => a.exp(),
        "log" => a.log(),
        "expm1" => a.expm1(),
        "log1p" => a.log1p(),
        "log1mexp" => log1mexp(-a),
        "sin" => a.sin(),
        "cos" => a.cos(),
        "tanh" => a.tanh(),
        "sigmoid" => a.sigmoid(),
        "erf" => a.erf(),
        "erfc" => a.erfc(),
        "softplus" => a.softplus(),
        "swish" => a.swish(),
        "gelu" => a.gelu(),
        "gelu_exact" => a.gelu_exact(),
        "relu" | "relu_small" => a.relu(),
        "leaky_relu" => a.leaky_relu(0.1),
        "elu" => a.elu(),
        "selu" => a.selu(),
        "abs" => a.abs(),
        "sign" => a.sign(),
        "floor" => a.floor(),
        "maximum" => maximum(a, b),
        "minimum" => minimum(a, b),
        "clip" => a.clip(0.0, 6.0),
        "cast" => a.cast(BF16),
        "equal" => a.equal(b),
        "less" => a.less(b),
        "logical_and" => logical_and(a, b),
        "logical_not" => logical_not(a),
        "select" => select(a, b, x[2]),
        "random_uniform" => random_uniform(graph, a.shape(), 0.0, 1.0, F32),
        "random_normal" => random_normal(graph, a.shape(), 0.0, 1.0, F32),
        "random_truncated_normal" => random_truncated_normal(graph, a.shape(), 0.0, 1.0, F32),
        "random_integer" => random_integer(graph, a.shape(), 0, 1000),
        "dropout" => dropout(a, 0.1),
        "range" => mesh_ops::range(graph, a.shape().iter().next()?, I32),
        _ => return None,
    })
}
