//! `LocalResponseNorm`: each channel divided by what its neighbours respond.

use super::fit::Fit;
use crate::elementwise::{powf, square};
use crate::reduce::sum;
use crate::room::*;

/// `x / (k + alpha / size * sum(x^2))^beta`, the sum over `size` channels around each: `size / 2` before it, rounded
/// down, itself, and the rest after it; fewer at the ends (Krizhevsky et al., ImageNet Classification with Deep
/// Convolutional Neural Networks, 2012, section 3.3; `alpha` divided by `size` as in torch's `local_response_norm`).
/// Split channels exchange margins.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::LocalResponseNorm;
/// # let g = mesh_ops::graph();
/// let channels = dim("channels", 16);
/// let x = g.input("x", [dim("batch", 4), dim("h", 8), channels], F32);
/// let norm = LocalResponseNorm { alpha: 1e-3, ..LocalResponseNorm::of(5) };
/// assert_eq!(norm.apply(x, channels).shape(), x.shape());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LocalResponseNorm {
    /// How many channels count.
    pub size: usize,
    /// How much their mean square counts.
    pub alpha: f64,
    /// The power of the divisor.
    pub beta: f64,
    /// What the divisor is without a response, before it is raised to the power.
    pub k: f64,
}

impl LocalResponseNorm {
    /// Over so many channels, with torch's numbers: 1e-4, 0.75 and 1.
    pub fn of(size: usize) -> Self {
        Self { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }

    /// `x` normalised along `channels`.
    #[track_caller]
    pub fn apply<'g>(&self, x: Tensor<'g>, channels: Dimension) -> Tensor<'g> {
        let _layer = x.graph().for_layer("local_response_norm");
        let fit = Fit::new().floats("the input", x).has("the input", x, channels);
        let fit = fit.and(x, || {
            let size = self.size;
            let legal = (1..=channels.size).contains(&size);
            (!legal)
                .then(|| format!("the norm is over 1 to {} channels, not {size}", channels.size))
        });
        if let Some(poisoned) = fit.refused("local_response_norm", x) {
            return poisoned;
        }
        let window = apart(&x.shape(), channels, "near").resized(self.size);
        let pads = [self.size / 2, (self.size - 1) / 2];
        let near = crate::windows(square(x), channels, window, 1, pads);
        let response = sum(near, [window]) * (self.alpha / self.size as f64);
        x * powf(response + self.k, -self.beta)
    }
}
