//! More functions of elements, folds so far along a dim, shapes, scatters and counts.

use super::of;
use mesh_ops::elementwise::*;
use mesh_ops::prelude::*;
use mesh_ops::{
    AssociativeScan, Padding, Scatter, Side, bincount, count_nonzero, histogram, linear_recurrence,
    searchsorted,
};

pub(super) fn made<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    element(name, x)
        .or_else(|| along(name, x))
        .or_else(|| shaped(name, x))
        .or_else(|| by_index(name, x))
}

fn element<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (a, b) = (x[0], x[x.len().min(2) - 1]);
    let last = a.shape().iter().last()?;
    Some(match name {
        "ceil" => ceil(a),
        "round" => round(a),
        "trunc" => trunc(a),
        "tan" => tan(a),
        "asin" => asin(a),
        "acos" => acos(a),
        "atan" => atan(a),
        "atan2" => atan2(a, b),
        "sinh" => sinh(a),
        "cosh" => cosh(a),
        "asinh" => asinh(a),
        "acosh" => acosh(a + 1.0),
        "atanh" => atanh(a * 0.9),
        "exp2" => exp2(a),
        "log2" => log2(a),
        "log10" => log10(a),
        "cbrt" => cbrt(a),
        "logaddexp" => logaddexp(a, b),
        "xlogy" => xlogy(a, b),
        "lgamma" => lgamma(a),
        "digamma" => digamma(a),
        "erfinv" => erfinv(a * 0.9),
        "log_sigmoid" => log_sigmoid(a),
        "hard_sigmoid" => hard_sigmoid(a),
        "hard_swish" => hard_swish(a),
        "hard_tanh" => hard_tanh(a),
        "relu6" => relu6(a),
        "mish" => mish(a),
        "softsign" => softsign(a),
        "celu" => celu(a, 0.5),
        "prelu" => prelu(a, b),
        "glu" => mesh_ops::glu(a, last),
        "swiglu" => mesh_ops::swiglu(a, last),
        "is_nan" => is_nan(a),
        "is_inf" => is_inf(a),
        "is_finite" => is_finite(a),
        "nan_to_num" => nan_to_num(a),
        "logical_xor" => logical_xor(a, b),
        "bit_and" => bit_and(a, b),
        "bit_or" => bit_or(a, b),
        "bit_xor" => bit_xor(a, b),
        "bit_not" => bit_not(a),
        "shift_left" => shift_left(a, b),
        "shift_right" => shift_right(a, b),
        "lerp" => lerp(a, b, x[x.len() - 1]),
        "copysign" => copysign(a, b),
        _ => return None,
    })
}

fn along<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let a = x[0];
    let last = a.shape().iter().last()?;
    let length = of(a, "length");
    Some(match name {
        "std" => mesh_ops::std(a, [last], 1),
        "vector_norm" => mesh_ops::vector_norm(a, 2.0, [last]),
        "vector_norm_1" => mesh_ops::vector_norm(a, 1.0, [last]),
        "vector_norm_inf" => mesh_ops::vector_norm(a, f64::INFINITY, [last]),
        "count_nonzero" => count_nonzero(a, [last]),
        "median" => mesh_ops::median(a, last),
        "quantile" => mesh_ops::quantile(a, 0.9, last),
        "cumprod" => mesh_ops::cumprod(a, length),
        "cummax" => mesh_ops::cummax(a, length),
        "cummin" => mesh_ops::cummin(a, length),
        "logcumsumexp" => mesh_ops::logcumsumexp(a, length),
        "linear_recurrence" => linear_recurrence(a, x[1], length, AssociativeScan::default()),
        _ => return None,
    })
}

fn shaped<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (a, graph) = (x[0], x[0].graph());
    let (first, last) = (a.shape().iter().next()?, a.shape().iter().last()?);
    let [h, w, c] = ["h", "w", "c"].map(|name| of(a, name));
    let other = a.shape().iter().nth(a.shape().rank().saturating_sub(2))?;
    let padded = |x, dim, how| mesh_ops::pad_with(x, dim, 1, 1, how);
    Some(match name {
        "tile" => mesh_ops::tile(a, last, 4),
        "repeat" => mesh_ops::repeat(a, last, 4),
        "flip" => mesh_ops::flip(a, [last]),
        "roll" => mesh_ops::roll(a, other, 5),
        "tril" => mesh_ops::tril(a, other, last, 0),
        "triu" => mesh_ops::triu(a, other, last, 0),
        "diag" => mesh_ops::diag(a, last, "columns"),
        "diagonal" => mesh_ops::diagonal(a, other, last, 0),
        "eye" => mesh_ops::eye(graph, first, first.renamed("columns"), 0, F32),
        "linspace" => mesh_ops::linspace(graph, first, 0.0, 1.0, F32),
        "meshgrid" => *mesh_ops::meshgrid(x).first()?,
        "pad_reflect" => padded(padded(a, h, Padding::Reflect), w, Padding::Reflect),
        "pad_edge" => padded(padded(a, h, Padding::Edge), w, Padding::Edge),
        "pad_wrap" => padded(padded(a, h, Padding::Wrap), w, Padding::Wrap),
        "space_to_depth" => mesh_ops::space_to_depth(a, &[h, w], 2, c),
        "depth_to_space" => mesh_ops::depth_to_space(a, &[h, w], 2, c),
        _ => return None,
    })
}

fn by_index<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (a, at) = (x[0], x[x.len() - 1]);
    let last = a.shape().iter().last()?;
    let put = |how| mesh_ops::scatter(a, x[1], at, of(a, "vocab"), how);
    let segments = dim("segments", 5000);
    Some(match name {
        "take_along" => mesh_ops::take_along(a, at, last),
        "scatter_set" => put(Scatter::Set),
        "scatter_max" => put(Scatter::Max),
        "scatter_min" => put(Scatter::Min),
        "scatter_mul" => put(Scatter::Mul),
        "segment_sum" => mesh_ops::segment_sum(a, at, of(a, "rows"), segments),
        "segment_max" => mesh_ops::segment_max(a, at, of(a, "rows"), segments),
        "bincount" => bincount(a, dim("bins", 1000)),
        "histogram" => histogram(a, dim("bins", 64), -1.0, 1.0),
        "searchsorted" => {
            let edges = mesh_ops::linspace(a.graph(), dim("edges", 1024), -3.0, 3.0, F32);
            searchsorted(edges, a, dim("edges", 1024), Side::Left)
        }
        _ => return None,
    })
}
