//! Convolutions and pooling.

use super::of;
use mesh_ops::conv::{Conv, Padding, conv, conv_transpose};
use mesh_ops::pool::{Pool, avg_pool, max_pool};
use mesh_ops::prelude::*;

pub(super) fn made<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Tensor<'g>> {
    let (image, filter) = (x[0], x[x.len() - 1]);
    let slide = Conv::over([("h", "fh"), ("w", "fw")]);
    Some(match name {
        "conv_1d" => conv(image, filter, &Conv::over([("w", "fw")])),
        "conv_grouped" => {
            let (each, out) = (of(filter, "c").size, of(filter, "o").size);
            let groups = of(image, "c").size / each;
            let cut = |x: Tensor<'g>, dim_of: &str, names: [&str; 2], size: usize| {
                let shape = x.shape();
                let dims = shape.iter().flat_map(|d| match d.name.as_str() == dim_of {
                    true => vec![dim(names[0], groups), dim(names[1], size / groups)],
                    false => vec![d],
                });
                mesh_ops::reshape(x, dims.collect::<Vec<_>>())
            };
            let image = cut(image, "c", ["g", "c"], of(image, "c").size);
            let filter = cut(filter, "o", ["g", "o"], out);
            conv(image, filter, &slide.depthwise(["g"]))
        }
        "conv_transpose" => conv_transpose(image, filter, &slide.strides([2, 2])),
        "conv_patches" => conv(image, filter, &slide.strides([16, 16]).padding(Padding::Valid)),
        "conv_dilated" => conv(image, filter, &slide.dilations([2, 2])),
        "conv_7x7_s2" => conv(image, filter, &slide.strides([2, 2]).pads([(3, 3); 2])),
        "conv_3x3_s2" | "conv_3x3_rgb" => {
            conv(image, filter, &slide.strides([2, 2]).pads([(1, 1); 2]))
        }
        "conv_1x1_s2" => conv(image, filter, &slide.strides([2, 2])),
        "depthwise_s2" => {
            conv(image, filter, &slide.strides([2, 2]).pads([(1, 1); 2]).depthwise(["c"]))
        }
        _ if name.starts_with("depthwise") => conv(image, filter, &slide.depthwise(["c"])),
        _ if name.starts_with("conv") => conv(image, filter, &slide),
        "max_pool_3x3_s2" => max_pool(image, &square(3).strides([2, 2])),
        "max_pool_2x2" => max_pool(image, &square(2)),
        "max_pool_wide" => max_pool(image, &square(5).strides([1, 1])),
        "avg_pool_2x2" => avg_pool(image, &square(2)),
        "avg_pool_3x3_same" => avg_pool(image, &square(3).strides([1, 1]).padding(Padding::Same)),
        "avg_pool_7x7" => avg_pool(image, &square(7)),
        "windows" => mesh_ops::windows(image, of(image, "time"), dim("tap", 320), 160, [0, 0]),
        "overlap_add" => {
            mesh_ops::overlap_add(image, dim("time", 16000), of(image, "tap"), 160, [0, 0])
        }
        _ => return None,
    })
}

fn square(size: usize) -> Pool {
    Pool::over([("h", size), ("w", size)])
}
