//! Ops that give the same elements other dims.

use crate::Builder;
use mesh_ops::prelude::*;
use mesh_ops::{split, unstack};

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
];
