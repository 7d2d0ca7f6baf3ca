//! `group_norm`, `instance_norm`: examples scaled by their own statistics, of some channels together or of each.
//!
//! A group's statistics are those of its channels, which a product with a small matrix adds up. So channels may be
//! split however groups lie: each processor adds its own, and what is reduced has the size of examples and groups.
//! The matrix has zeros for the channels of other groups, and NaN or an infinity times 0 is NaN.

use super::fit::Fit;
use super::norm::{NORM_EPSILON, scaled};
use super::{NormWeights, Parameters};
use crate::einsum::contract;
use crate::elementwise::{cast, square};
use crate::reduce::mean;
use crate::room::*;
use mesh_core::graph::Initializer;
use ndarray::Array2;

/// Normalises over groups of consecutive channels and over given dims, as the positions of an image, with a scale
/// and a bias for each channel: `(x - mean) / sqrt(variance + epsilon) * scale + bias` (arXiv 1803.08494,
/// equations 1 to 6). Dims that are not given, as the batch, have statistics for each of their indices.
///
/// Groups are added up by a product with zeros and ones: NaN or an infinity in one group makes all groups of that
/// example NaN, where torch keeps the others. With as many groups as channels there is no product.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::{GroupNorm, Parameters};
/// # let g = mesh_ops::graph();
/// let (batch, h, w, channels) = (dim("batch", 4), dim("h", 8), dim("w", 8), dim("channels", 16));
/// let x = g.input("x", [batch, h, w, channels], F32);
/// let norm = GroupNorm::new(channels, 4).over([h, w]).epsilon(1e-5);
/// let weights = norm.weights(&Parameters::like(x), "norm");
/// assert_eq!(norm.apply(x, &weights).shape(), x.shape());
/// ```
#[derive(Clone, Debug)]
pub struct GroupNorm {
    channels: Dimension,
    groups: usize,
    over: Vec<Dimension>,
    epsilon: f64,
}

impl GroupNorm {
    /// So many groups, which divide the channels; over no other dims, with the epsilon 1e-6.
    pub fn new(channels: Dimension, groups: usize) -> Self {
        Self { channels, groups, over: Vec::new(), epsilon: NORM_EPSILON }
    }

    /// The other dims that are normalised over.
    pub fn over(mut self, dims: impl IntoIterator<Item = Dimension>) -> Self {
        self.over = dims.into_iter().collect();
        self
    }

    /// What is added to variances.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// New variables `{name}/scale`, ones, and `{name}/bias`, zeros.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> NormWeights<'g> {
        let _layer = parameters.graph().for_layer("group_norm");
        let _caller = parameters.graph().for_caller();
        let _scope = parameters.scope(name);
        let scale = parameters.variable("scale", [self.channels], Initializer::ONES);
        let bias = Some(parameters.variable("bias", [self.channels], Initializer::ZEROS));
        NormWeights { scale, bias }
    }

    /// That `x` is of floats, and has the dims.
    fn fit(&self, x: Tensor<'_>) -> Fit {
        let fit = Fit::new().floats("the input", x).has("the input", x, self.channels);
        let fit = self.over.iter().fold(fit, |fit, dim| fit.has("the input", x, *dim));
        fit.and(x, || {
            let (groups, channels) = (self.groups, self.channels);
            if groups == 0 || channels.size % groups != 0 {
                return Some(format!("{groups} groups do not divide {channels}"));
            }
            let given = self.over.contains(&channels);
            given.then(|| format!("{channels} is given as channels and as another dim"))
        })
    }

    /// `x` normalised. A weight may have other dims of `x` besides.
    #[track_caller]
    pub fn apply<'g>(&self, x: Tensor<'g>, weights: &NormWeights<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("group_norm");
        let _caller = x.graph().for_caller();
        let given = std::iter::once(weights.scale).chain(weights.bias);
        let fit = given.fold(self.fit(x), |fit, weight| {
            fit.among("weights", weight, &x.shape()).like("weights", weight, x)
        });
        if let Some(poisoned) = fit.refused("group_norm", x) {
            return poisoned;
        }
        let wide = cast(x, x.dtype().reduction());
        let centred = wide - self.mean(wide);
        let variance = self.mean(square(centred));
        scaled((centred, variance, self.epsilon), weights.scale, weights.bias, x.dtype())
    }

    /// For each channel the mean of its group.
    #[track_caller]
    fn mean<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let of_channels = mean(x, self.over.iter().copied());
        let size = self.channels.size / self.groups;
        if size == 1 {
            return of_channels;
        }
        let group = apart(&x.shape(), self.channels, "group").resized(self.groups);
        let belongs = |(channel, group)| f64::from(u8::from(channel / size == group));
        let members = Array2::from_shape_fn((self.channels.size, self.groups), belongs);
        let members = cast(x.graph().constant(members, [self.channels, group]), x.dtype());
        let of_groups = contract(of_channels, &[members], [self.channels]) * (1.0 / size as f64);
        contract(of_groups, &[members], [group])
    }
}

#[track_caller]
fn with_new_weights<'g>(norm: &GroupNorm, op: &str, x: Tensor<'g>, name: &str) -> Tensor<'g> {
    match norm.fit(x).refused(op, x) {
        Some(poisoned) => poisoned,
        None => norm.apply(x, &norm.weights(&Parameters::like(x), name)),
    }
}

/// `x` normalised over groups of `channels` and over dims, with new variables, NaN reaching all groups of an example;
/// see [`GroupNorm`].
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, h, channels) = (dim("batch", 4), dim("h", 8), dim("channels", 16));
/// let x = g.input("x", [batch, h, channels], F32);
/// assert_eq!(mesh_ops::layers::group_norm(x, channels, 4, [h], "norm").shape(), x.shape());
/// ```
#[track_caller]
pub fn group_norm<'g>(
    x: Tensor<'g>,
    channels: Dimension,
    groups: usize,
    over: impl IntoIterator<Item = Dimension>,
    name: &str,
) -> Tensor<'g> {
    let _layer = x.graph().for_layer("group_norm");
    let _caller = x.graph().for_caller();
    with_new_weights(&GroupNorm::new(channels, groups).over(over), "group_norm", x, name)
}

/// `x` normalised over dims, for each channel of each example (arXiv 1607.08022), with new variables: a
/// [`GroupNorm`] with as many groups as channels.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, h, channels) = (dim("batch", 4), dim("h", 8), dim("channels", 16));
/// let x = g.input("x", [batch, h, channels], F32);
/// assert_eq!(mesh_ops::layers::instance_norm(x, channels, [h], "norm").shape(), x.shape());
/// ```
#[track_caller]
pub fn instance_norm<'g>(
    x: Tensor<'g>,
    channels: Dimension,
    over: impl IntoIterator<Item = Dimension>,
    name: &str,
) -> Tensor<'g> {
    let _layer = x.graph().for_layer("instance_norm");
    let _caller = x.graph().for_caller();
    let norm = GroupNorm::new(channels, channels.size).over(over);
    with_new_weights(&norm, "instance_norm", x, name)
}
