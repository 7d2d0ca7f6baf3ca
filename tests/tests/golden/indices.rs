//! Sorting, selecting by index, and moving along a dim.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::layers::embed;
use mesh_ops::prelude::*;
use mesh_ops::{Order, dynamic_shift, one_hot_with, scatter_add, update_at};

fn order(i: &Given<'_>) -> Order {
    if i.is("descending") { Order::Descending } else { Order::Ascending }
}

/// Builders of `indices.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("sort", |i| vec![i.x[0].sort(i.along("dim"), order(i))]),
    ("sort_of_nan", |i| vec![i.x[0].stop_gradient().sort(i.dim("q"), order(i))]),
    ("argsort", |i| vec![i.x[0].argsort(i.along("dim"), order(i))]),
    ("top_k", |i| {
        let (values, indices) = i.x[0].top_k(i.along("dim"), dim("k", i.size("k")));
        vec![values, indices]
    }),
    ("top_k_with_ties", |i| {
        let (values, indices) = i.x[0].top_k(i.dim("q"), dim("k", 3));
        vec![values, indices]
    }),
    ("top_1", |i| {
        let (value, index) = i.x[0].top_1(i.dim("q"));
        vec![value, index]
    }),
    ("nth", |i| {
        let (x, n, q) = (i.x[0], i.size("n"), i.dim("q"));
        vec![x.nth_largest(n, q), x.nth_smallest(n, q)]
    }),
    ("gather", |i| vec![i.x[0].gather(i.x[1], i.dim("words"))]),
    ("gather_beside", |i| vec![i.x[0].gather(i.x[1], i.dim("words"))]),
    ("embed", |i| vec![embed(i.x[1], i.x[0], i.dim("vocab"))]),
    ("scatter_add", |i| {
        let words = dim("words", i.size("words"));
        vec![scatter_add(i.x[0], i.x[1], words, [words, i.dim("width")])]
    }),
    ("scatter_add_beside", |i| {
        let words = dim("words", i.size("words"));
        vec![scatter_add(i.x[0], i.x[1], words, [i.dim("batch"), words, i.dim("width")])]
    }),
    ("one_hot", |i| vec![i.x[0].one_hot(dim("classes", i.size("classes")), i.float)]),
    ("one_hot_with", |i| {
        let classes = dim("classes", i.size("classes"));
        vec![one_hot_with(i.x[0], classes, i.number("on"), i.number("off"), i.float)]
    }),
    ("shift", |i| vec![i.x[0].shift(i.dim("p"), i.integer("offset"), i.is("wrap"))]),
    ("dynamic_shift", |i| vec![dynamic_shift(i.x[0], i.x[1], i.dim("q"), i.is("wrap"))]),
    ("reverse", |i| vec![i.x[0].reverse(i.along("dim"))]),
    ("update_at", |i| vec![update_at(i.x[0], i.dim("q"), i.x[2], i.x[1])]),
];
