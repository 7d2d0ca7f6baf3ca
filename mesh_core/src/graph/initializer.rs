//! Initial values of variables.

use crate::names::{DType, Dimension};
use crate::program::{Generator, Scalar};

/// How a variable starts. Random values depend on the seed, the variable's unique name and the
/// global index of the element only: they are equal under every layout.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Initializer {
    /// Every element the same.
    Constant(f64),
    /// Uniform in `[low, high)`.
    Uniform {
        /// Least value.
        low: f64,
        /// Bound above.
        high: f64,
    },
    /// Normal, as PyTorch's `normal_` and JAX's `normal` draw it.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        stddev: f64,
    },
    /// Normal, redrawn beyond two standard deviations.
    TruncatedNormal {
        /// Mean.
        mean: f64,
        /// Standard deviation before cutting.
        stddev: f64,
    },
}

/// Which count of connections variance scaling divides by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fan {
    /// Product of the dims summed over.
    In,
    /// Product of the dims produced.
    Out,
    /// The mean of both.
    Average,
}

impl Initializer {
    /// All zeros.
    pub const ZEROS: Self = Self::Constant(0.0);
    /// All ones.
    pub const ONES: Self = Self::Constant(1.0);

    /// Truncated normal of standard deviation `sqrt(scale / fan)`, as Mesh TensorFlow draws it: no
    /// correction for the cut. `inputs` and `outputs` are the dims a kernel sums over and produces.
    pub fn variance_scaling(
        scale: f64,
        fan: Fan,
        inputs: &[Dimension],
        outputs: &[Dimension],
    ) -> Self {
        let size = |dims: &[Dimension]| dims.iter().map(|d| d.size as f64).product::<f64>();
        let fan = match fan {
            Fan::In => size(inputs),
            Fan::Out => size(outputs),
            Fan::Average => (size(inputs) + size(outputs)) / 2.0,
        };
        Self::TruncatedNormal { mean: 0.0, stddev: (scale / fan.max(1.0)).sqrt() }
    }

    /// Whether it makes sense for a dtype.
    pub(crate) fn check(&self, dtype: DType) -> Result<(), String> {
        match *self {
            Self::Constant(value) if !value.is_finite() => {
                Err(format!("initial value {value} is not a finite number"))
            }
            Self::Constant(value) => held("initial value", dtype, &[value]),
            _ if !dtype.is_float() => {
                Err(format!("random initial values need floats, not {dtype}"))
            }
            Self::Uniform { low, high } if !(low <= high && (high - low).is_finite()) => {
                Err(format!("uniform initial values need low <= high, not {low} and {high}"))
            }
            Self::Normal { mean, stddev } | Self::TruncatedNormal { mean, stddev }
                if !(mean.is_finite() && stddev >= 0.0 && stddev.is_finite()) =>
            {
                Err(format!(
                    "normal initial values need a finite mean and stddev >= 0, not {mean} and {stddev}"
                ))
            }
            Self::Uniform { low, high } => held("uniform initial values", dtype, &[low, high]),
            Self::Normal { mean, stddev } | Self::TruncatedNormal { mean, stddev } => {
                held("normal initial values", dtype, &[mean, stddev])
            }
        }
    }

    /// The generator of a variable of this name.
    pub(crate) fn generator(&self, name: &str, dtype: DType) -> Generator {
        let key = crate::names::stable_hash(name);
        match *self {
            Self::Constant(value) => Generator::Fill(Scalar::new(dtype, value)),
            Self::Uniform { low, high } if low == high => {
                Self::Constant(low).generator(name, dtype)
            }
            Self::Normal { mean, stddev: 0.0 } | Self::TruncatedNormal { mean, stddev: 0.0 } => {
                Self::Constant(mean).generator(name, dtype)
            }
            Self::Uniform { low, high } => Generator::Uniform { key, low, high },
            Self::Normal { mean, stddev } => Generator::Normal { key, mean, stddev },
            Self::TruncatedNormal { mean, stddev } => {
                Generator::TruncatedNormal { key, mean, stddev }
            }
        }
    }
}

/// Whether a dtype can hold these numbers.
fn held(what: &str, dtype: DType, numbers: &[f64]) -> Result<(), String> {
    let refused = numbers.iter().find_map(|&value| Scalar::checked(dtype, value).err());
    refused.map_or(Ok(()), |problem| Err(format!("{what}: {problem}")))
}
