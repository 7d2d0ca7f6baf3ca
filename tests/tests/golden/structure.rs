//! Ops that give the same elements other dims.

use crate::Builder;
use mesh_ops::prelude::*;
use mesh_ops::{ones_like, pick, replace_dims, split, split_evenly, unstack, zeros_like};

/// Builders of `structure.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("pad", |i| vec![i.x[0].pad(i.along("dim"), i.size("low"), i.size("high"))]),
    ("slice", |i| {
        let kept = i.along("dim").resized(i.size("size"));
        vec![i.x[0].slice(kept, i.size("begin"))]
    }),
    ("concat", |i| vec![i.x[0].concat(&i.x[1..], "p")]),
    ("stack", |i| vec![i.x[0].stack(&i.x[1..], "new")]),
    ("split", |i| {
        let p = i.dim("p");
        split(i.x[0], p, [2, p.size - 2])
    }),
    ("unstack", |i| unstack(i.x[0], i.dim("q"))),
    ("transpose", |i| vec![i.x[0].transpose(i.dims("dims"))]),
    ("reshape", |i| {
        let half = dim("half", i.dim("p").size / 2);
        vec![i.x[0].reshape([dim("two", 2), half, i.dim("q")])]
    }),
    ("merge_dims", |i| {
        let merged = i.x[0].merge_dims([i.dim("r"), i.dim("p")], "rp");
        vec![merged]
    }),
    ("broadcast", |i| {
        let shape = Shape::new([i.dim("p"), dim("r", i.size("r")), i.dim("q")]).unwrap();
        vec![i.x[0].broadcast(&shape)]
    }),
    ("pick", |i| vec![pick(i.x[0], i.along("dim"), i.size("at"))]),
    ("split_evenly", |i| split_evenly::<3>(i.x[0], i.dim("p")).to_vec()),
    ("replace_dims", |i| {
        let q = i.dim("q");
        vec![replace_dims(i.x[0], [q], [dim("two", 2), dim("half", q.size / 2)])]
    }),
    ("likes", |i| vec![zeros_like(i.x[0]), ones_like(i.x[0])]),
];
