//! `clip_activation_gradient`: the identity, whose cotangent is made smaller if it is too large.

use super::fit::Fit;
use crate::elementwise::{maximum, sqrt, square};
use crate::reduce::mean;
use crate::room::*;

/// `x`; in the backward pass its cotangent is divided by `max(1, rms / clip)`, where `rms` is the
/// root of the mean square of all of the cotangent.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 4)], F32);
/// assert_eq!(mesh_ops::layers::clip_activation_gradient(x, 1.0).shape(), x.shape());
/// ```
#[track_caller]
pub fn clip_activation_gradient(x: Tensor<'_>, clip: f64) -> Tensor<'_> {
    let _layer = x.graph().for_layer("clip_activation_gradient");
    let fit = Fit::new().floats("the input", x);
    if let Some(poisoned) = fit.refused("clip_activation_gradient", x) {
        return poisoned;
    }
    if clip.is_nan() || clip <= 0.0 {
        x.graph()
            .record("clip_activation_gradient", format!("{clip} is no bound; it must be positive"));
        return x.poisoned();
    }
    let [y] = x.graph().custom_gradient(
        [x],
        |x| x,
        move |cx| {
            let dy = cx.dy();
            let rms = sqrt(mean(square(dy), dy.shape()));
            vec![Some(dy / maximum(dy.scalar_like(1.0), rms * (1.0 / clip)))]
        },
    );
    y
}
