//! Images against `jax.image` and PyTorch.

use crate::Builder;
use crate::instance::Given;
use mesh_ops::layers::*;
use mesh_ops::prelude::*;
use mesh_ops::resize::{Method, Resize};
use mesh_ops::{adaptive_avg_pool, adaptive_max_pool};

/// New sizes of both spatial dims.
fn sizes(i: &Given<'_>) -> [(&'static str, usize); 2] {
    let sizes = i.sizes("size");
    [("h", sizes[0]), ("w", sizes[1])]
}

fn resized<'g>(i: &Given<'g>, method: Method) -> Vec<Tensor<'g>> {
    vec![i.x[0].resize(&Resize::to(sizes(i)).method(method))]
}

fn antialiased<'g>(i: &Given<'g>, method: Method) -> Vec<Tensor<'g>> {
    vec![i.x[0].resize(&Resize::to(sizes(i)).method(method).antialias())]
}

/// With corners aligned if the instance says so.
fn cornered<'g>(i: &Given<'g>, method: Method) -> Vec<Tensor<'g>> {
    let resize = Resize::to(sizes(i)).method(method);
    vec![i.x[0].resize(&if i.is("corners") { resize.corners() } else { resize })]
}

fn normalised<'g>(i: &Given<'g>, groups: usize) -> Vec<Tensor<'g>> {
    // Torch's epsilon.
    let norm = GroupNorm::new(i.dim("c"), groups).over([i.dim("h"), i.dim("w")]).epsilon(1e-5);
    vec![norm.apply(i.x[0], &NormWeights { scale: i.x[1], bias: Some(i.x[2]) })]
}

/// Builders of `images.json`.
pub(crate) const JAX: &[Builder] = &[
    ("resize_nearest", |i| resized(i, Method::Nearest)),
    ("resize_linear", |i| resized(i, Method::Linear)),
    ("resize_linear_antialias", |i| antialiased(i, Method::Linear)),
    ("resize_cubic", |i| resized(i, Method::Cubic)),
    ("resize_cubic_antialias", |i| antialiased(i, Method::Cubic)),
];

/// Builders of `torch_images.json`.
pub(crate) const TORCH: &[Builder] = &[
    ("resize_nearest", |i| resized(i, Method::Nearest)),
    ("resize_nearest_below", |i| resized(i, Method::NearestBelow)),
    ("resize_linear", |i| cornered(i, Method::Linear)),
    ("resize_linear_antialias", |i| antialiased(i, Method::Linear)),
    ("resize_cubic", |i| antialiased(i, Method::Cubic)),
    ("resize_cubic_repeated", |i| cornered(i, Method::CubicRepeated)),
    ("adaptive_avg_pool", |i| vec![adaptive_avg_pool(i.x[0], sizes(i))]),
    ("adaptive_max_pool", |i| vec![adaptive_max_pool(i.x[0], sizes(i))]),
    ("group_norm", |i| normalised(i, i.size("groups"))),
    ("instance_norm", |i| normalised(i, i.dim("c").size)),
    ("local_response_norm", |i| {
        let (size, alpha) = (i.size("size"), i.number("alpha"));
        let norm = LocalResponseNorm { alpha, k: 2.0, ..LocalResponseNorm::of(size) };
        vec![norm.apply(i.x[0], i.dim("c"))]
    }),
];
