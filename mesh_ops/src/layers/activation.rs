//! Activations by name, as layers and flags take them.

use crate::elementwise;
use crate::room::*;
use std::fmt;
use std::str::FromStr;

/// What is applied to each element of a layer's result.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::Activation;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("x", 4)], F32);
/// let activation: Activation = "gelu".parse()?;
/// assert_eq!((activation.apply(x).shape(), activation.name()), (x.shape(), "gelu"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Activation {
    /// Nothing.
    #[default]
    Linear,
    /// `max(x, 0)`.
    Relu,
    /// The Gaussian error linear unit in its tanh approximation.
    Gelu,
    /// `x * sigmoid(x)`.
    Swish,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `log(1 + exp(x))`.
    Softplus,
    /// `x`, below 0 `exp(x) - 1`.
    Elu,
    /// A scaled elu that keeps mean and variance.
    Selu,
}

impl Activation {
    /// Every activation.
    pub const ALL: [Self; 9] = [
        Self::Linear,
        Self::Relu,
        Self::Gelu,
        Self::Swish,
        Self::Tanh,
        Self::Sigmoid,
        Self::Softplus,
        Self::Elu,
        Self::Selu,
    ];

    /// As written in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Relu => "relu",
            Self::Gelu => "gelu",
            Self::Swish => "swish",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Softplus => "softplus",
            Self::Elu => "elu",
            Self::Selu => "selu",
        }
    }

    /// The activation of a tensor.
    #[track_caller]
    pub fn apply(self, x: Tensor<'_>) -> Tensor<'_> {
        match self {
            Self::Linear => x,
            Self::Relu => elementwise::relu(x),
            Self::Gelu => elementwise::gelu(x),
            Self::Swish => elementwise::swish(x),
            Self::Tanh => elementwise::tanh(x),
            Self::Sigmoid => elementwise::sigmoid(x),
            Self::Softplus => elementwise::softplus(x),
            Self::Elu => elementwise::elu(x),
            Self::Selu => elementwise::selu(x),
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Activation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|activation| activation.name() == text);
        found.ok_or_else(|| format!("no activation `{text}`: there are {names}"))
    }
}
