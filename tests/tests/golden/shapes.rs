//! Repeated, flipped and padded tensors, matrices, scatters.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::prelude::*;
use mesh_ops::{
    Padding, Scatter, depth_to_space, diag, diagonal, eye, flip, linspace, meshgrid, pad_with,
    repeat, roll, scatter, segment_max, segment_sum, space_to_depth, take_along, tile, tril, triu,
};

fn put<'g>(i: &Given<'g>, how: Scatter) -> Vec<Tensor<'g>> {
    vec![scatter(i.x[0], i.x[1], i.x[2], i.dim("p"), how)]
}

fn padding(i: &Given<'_>) -> Padding {
    match i.text("mode") {
        "reflect" => Padding::Reflect,
        "symmetric" => Padding::Symmetric,
        "edge" => Padding::Edge,
        _ => Padding::Wrap,
    }
}

fn k(i: &Given<'_>) -> i32 {
    i.integer("k").try_into().unwrap()
}

/// Builders of `shapes.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("tile", |i| vec![tile(i.x[0], i.along("dim"), i.size("times"))]),
    ("repeat", |i| vec![repeat(i.x[0], i.along("dim"), i.size("times"))]),
    ("flip", |i| vec![flip(i.x[0], i.dims("dims"))]),
    ("roll", |i| vec![roll(i.x[0], i.along("dim"), i.integer("by"))]),
    ("eye", |i| {
        let unit = eye(i.graph, i.dim("p"), dim("columns", i.size("columns")), k(i), i.float);
        vec![unit * i.x[0]]
    }),
    ("diag", |i| vec![diag(i.x[0], i.dim("p"), "columns")]),
    ("diagonal", |i| vec![diagonal(i.x[0], i.dim("p"), i.dim("q"), k(i))]),
    ("triangles", |i| {
        let (rows, columns) = (i.dim("p"), i.dim("q"));
        vec![tril(i.x[0], rows, columns, k(i)), triu(i.x[0], rows, columns, k(i))]
    }),
    ("linspace", |i| {
        let (line, count) = (i.x[0], dim("line", i.size("count")));
        let spaced = linspace(i.graph, count, i.number("start"), i.number("stop"), i.float);
        vec![(line * spaced).transpose([i.dim("p"), count])]
    }),
    ("meshgrid", |i| meshgrid(&i.x)),
    ("pad_with", |i| vec![pad_with(i.x[0], i.dim("p"), i.size("low"), i.size("high"), padding(i))]),
    ("take_along", |i| {
        let at = i.x[1].rename(i.dim("r"), "q");
        vec![take_along(i.x[0], at, i.dim("q"))]
    }),
    ("scatter_set", |i| put(i, Scatter::Set)),
    ("scatter_add", |i| put(i, Scatter::Add)),
    ("scatter_max", |i| put(i, Scatter::Max)),
    ("scatter_min", |i| put(i, Scatter::Min)),
    ("scatter_mul", |i| put(i, Scatter::Mul)),
    ("segment_sum", |i| {
        let segments = dim("segments", i.size("segments"));
        vec![segment_sum(i.x[0], i.x[1], i.dim("p"), segments)]
    }),
    ("segment_max", |i| {
        let segments = dim("segments", i.size("segments"));
        vec![segment_max(i.x[0], i.x[1], i.dim("p"), segments)]
    }),
    ("segment_max_of_ties", |i| vec![segment_max(i.x[0], i.x[1], i.dim("p"), dim("segments", 2))]),
    ("depth_to_space", |i| vec![depth_to_space(i.x[0], &[i.dim("h"), i.dim("w")], 2, i.dim("c"))]),
    ("space_to_depth", |i| vec![space_to_depth(i.x[0], &[i.dim("h"), i.dim("w")], 2, i.dim("c"))]),
];
