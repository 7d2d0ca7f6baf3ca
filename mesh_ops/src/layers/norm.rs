//! `layer_norm` and `rms_norm`: every example scaled by what lies along one dim of it.
//!
//! Statistics of bf16 are taken in f32. With the dim split, `layer_norm` costs two small
//! all-reduces forward, one after the other, and `rms_norm` one.

use super::Parameters;
use super::fit::Fit;
use super::parameters::weights;
use crate::elementwise::{cast, rsqrt, square};
use crate::reduce::mean;
use crate::room::*;
use mesh_core::graph::Initializer;

/// What is added to variances before the root is taken: Mesh TensorFlow's value.
pub const NORM_EPSILON: f64 = 1e-6;

/// Which normalisation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Norm {
    /// Less the mean, over the standard deviation; scale and bias.
    Layer,
    /// Over the root of the mean square; scale only.
    Rms,
}

/// Weights of a normalisation: one number per index of the dim.
#[derive(Clone, Copy, Debug)]
pub struct NormWeights<'g> {
    /// Ones at first.
    pub scale: Tensor<'g>,
    /// Zeros at first.
    pub bias: Option<Tensor<'g>>,
}
weights!(NormWeights { scale, bias });

impl Norm {
    /// As errors call it.
    fn name(self) -> &'static str {
        match self {
            Self::Layer => "layer_norm",
            Self::Rms => "rms_norm",
        }
    }

    /// New variables `{name}/scale` and, for [`Norm::Layer`], `{name}/bias`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::{Norm, Parameters};
    /// # let g = mesh_ops::graph();
    /// let (batch, model) = (dim("batch", 4), dim("model", 8));
    /// let x = g.input("x", [batch, model], F32);
    /// let weights = Norm::Layer.weights(&Parameters::like(x), model, "norm");
    /// assert_eq!(Norm::Layer.apply(x, model, &weights).shape(), x.shape());
    /// ```
    #[track_caller]
    pub fn weights<'g>(
        self,
        parameters: &Parameters<'g>,
        dim: Dimension,
        name: &str,
    ) -> NormWeights<'g> {
        let _layer = parameters.graph().for_layer(self.name());
        let _scope = parameters.scope(name);
        self.make(parameters, dim)
    }

    #[track_caller]
    fn make<'g>(self, parameters: &Parameters<'g>, dim: Dimension) -> NormWeights<'g> {
        let scale = parameters.variable("scale", [dim], Initializer::ONES);
        let bias = match self {
            Self::Layer => Some(parameters.variable("bias", [dim], Initializer::ZEROS)),
            Self::Rms => None,
        };
        NormWeights { scale, bias }
    }

    /// `x` normalised along `dim`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// use mesh_ops::layers::{Norm, NormWeights};
    /// # let g = mesh_ops::graph();
    /// let (batch, model) = (dim("batch", 4), dim("model", 8));
    /// let (x, scale) = (g.input("x", [batch, model], F32), g.fill(1.0, [model], F32));
    /// let y = Norm::Rms.apply(x, model, &NormWeights { scale, bias: None });
    /// assert_eq!(y.shape(), x.shape());
    /// ```
    #[track_caller]
    pub fn apply<'g>(self, x: Tensor<'g>, dim: Dimension, weights: &NormWeights<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer(self.name());
        let mut fit = Fit::new().floats("the input", x).has("the input", x, dim);
        for weight in std::iter::once(weights.scale).chain(weights.bias) {
            fit = fit.among("weights", weight, &x.shape()).like("weights", weight, x);
        }
        if let Some(poisoned) = fit.refused(self.name(), x) {
            return poisoned;
        }
        let wide = cast(x, x.dtype().reduction());
        let centred = match self {
            Self::Layer => wide - mean(wide, [dim]),
            Self::Rms => wide,
        };
        let variance = mean(square(centred), [dim]);
        let y = cast(centred * rsqrt(variance + NORM_EPSILON), x.dtype()) * weights.scale;
        match weights.bias {
            Some(bias) => y + bias,
            None => y,
        }
    }
}

/// `centred / sqrt(variance + epsilon) * scale + bias`, made in the dtype of `centred`. What is multiplied by the
/// scale is the root's reciprocal, where both are smaller than `centred`.
#[track_caller]
pub(super) fn scaled<'g>(
    (centred, variance, epsilon): (Tensor<'g>, Tensor<'g>, f64),
    scale: Tensor<'g>,
    bias: Option<Tensor<'g>>,
    dtype: DType,
) -> Tensor<'g> {
    let wide = centred.dtype();
    let y = centred * (rsqrt(variance + epsilon) * cast(scale, wide));
    match bias {
        Some(bias) => cast(y + cast(bias, wide), dtype),
        None => cast(y, dtype),
    }
}

/// `(x - mean) / sqrt(variance + 1e-6) * scale + bias` along `dim`, with new variables
/// `{name}/scale` and `{name}/bias`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, model) = (dim("batch", 4), dim("model", 8));
/// let x = g.input("x", [batch, model], F32);
/// assert_eq!(mesh_ops::layers::layer_norm(x, model, "norm").shape(), x.shape());
/// ```
#[track_caller]
pub fn layer_norm<'g>(x: Tensor<'g>, dim: Dimension, name: &str) -> Tensor<'g> {
    let _layer = x.graph().for_layer("layer_norm");
    normalised(Norm::Layer, x, dim, name)
}

/// `x / sqrt(mean(x^2) + 1e-6) * scale` along `dim`, with a new variable `{name}/scale`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, model) = (dim("batch", 4), dim("model", 8));
/// let x = g.input("x", [batch, model], F32);
/// assert_eq!(mesh_ops::layers::rms_norm(x, model, "norm").shape(), x.shape());
/// ```
#[track_caller]
pub fn rms_norm<'g>(x: Tensor<'g>, dim: Dimension, name: &str) -> Tensor<'g> {
    let _layer = x.graph().for_layer("rms_norm");
    normalised(Norm::Rms, x, dim, name)
}

#[track_caller]
fn normalised<'g>(norm: Norm, x: Tensor<'g>, dim: Dimension, name: &str) -> Tensor<'g> {
    let fit = Fit::new().floats("the input", x).has("the input", x, dim);
    if let Some(poisoned) = fit.refused(norm.name(), x) {
        return poisoned;
    }
    let _scope = x.graph().scope(name);
    let weights = norm.make(&Parameters::like(x), dim);
    norm.apply(x, dim, &weights)
}
