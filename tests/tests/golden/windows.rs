//! Convolutions, pools, and windows along a dim.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::conv::{Conv, Padding};
use mesh_ops::pool::Pool;
use mesh_ops::prelude::*;
use mesh_ops::reduce::mean;
use mesh_ops::{overlap_add, pool_1d, stride_1d};

const SPACE: [(&str, &str); 3] = [("h", "fh"), ("w", "fw"), ("d", "fd")];

fn padding(i: &Given<'_>) -> Padding {
    match i.text("padding") {
        "SAME" => Padding::Same,
        _ => Padding::Valid,
    }
}

fn sliding(i: &Given<'_>) -> Conv {
    let strides = i.sizes("strides");
    Conv::over(SPACE.into_iter().take(strides.len()))
        .strides(strides)
        .dilations(i.sizes("dilations"))
        .padding(padding(i))
}

fn pool(i: &Given<'_>) -> Pool {
    let names = SPACE.into_iter().map(|(image, _)| image);
    Pool::over(names.zip(i.sizes("windows"))).strides(i.sizes("strides")).padding(padding(i))
}

fn pads(i: &Given<'_>) -> [usize; 2] {
    i.sizes("pads").try_into().unwrap()
}

fn conv<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    vec![i.x[0].conv(i.x[1], &sliding(i))]
}

fn conv_transpose<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    vec![i.x[0].conv_transpose(i.x[1], &sliding(i))]
}

fn max_pool<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    vec![i.x[0].max_pool(&pool(i))]
}

fn avg_pool<'g>(i: &Given<'g>) -> Vec<Tensor<'g>> {
    vec![i.x[0].avg_pool(&pool(i))]
}

/// Builders of `windows.json`.
pub(crate) const BUILDERS: &[Builder] = &[
    ("conv_1d", conv),
    ("conv_2d", conv),
    ("conv_3d", conv),
    ("conv_transpose_1d", conv_transpose),
    ("conv_transpose_2d", conv_transpose),
    ("conv_grouped", |i| vec![i.x[0].conv(i.x[1], &sliding(i).depthwise(["group"]))]),
    ("conv_depthwise", |i| vec![i.x[0].conv(i.x[1], &sliding(i).depthwise(["in"]))]),
    ("conv_causal", |i| {
        let causal = Conv::over(SPACE.into_iter().take(1)).pads([(i.size("low"), 0)]);
        vec![i.x[0].conv(i.x[1], &causal)]
    }),
    ("max_pool_1d", max_pool),
    ("max_pool_2d", max_pool),
    ("avg_pool_1d", avg_pool),
    ("avg_pool_2d", avg_pool),
    ("pool_1d", |i| {
        let h = i.dim("h");
        vec![pool_1d(i.x[0], h, 2, mean), stride_1d(i.x[0], h, 3)]
    }),
    ("windows", |i| {
        let tap = dim("tap", i.size("tap"));
        vec![i.x[0].windows(i.dim("h"), tap, i.size("stride"), pads(i))]
    }),
    ("overlap_add", |i| {
        let (h, tap) = (dim("h", i.size("h")), i.dim("tap"));
        vec![overlap_add(i.x[0], h, tap, i.size("stride"), pads(i))]
    }),
];
