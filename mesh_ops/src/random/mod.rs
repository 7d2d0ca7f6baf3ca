//! Random numbers: `random_uniform`, `random_integer`, `random_normal`, `random_truncated_normal`,
//! and what is made of them.
//!
//! | shape | as given |
//! |---|---|
//! | split | every dim parallel: each processor makes its slice |
//! | linear | none |
//! | gradient | none |
//!
//! A number is a function of the session's seed, the operation's unique name, its salts
//! ([`Graph::iteration_salts`]: the step, unless another was chosen) and the element's global position in
//! declared order. So no layout changes it; a call that trains is followed by other numbers, and the same
//! seed gives the same run. A call that does not train is followed by the same numbers unless
//! [`Graph::salted`] says what else they depend on.
//! Two operations never share numbers; the gradient sees the very numbers of the forward pass.

pub(crate) mod dropout;
pub(crate) mod jitter;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod proof;
pub(crate) mod sample;

pub use dropout::{dropout, dropout_over};
pub use jitter::multiplicative_jitter;
pub use sample::sample_with_temperature;

use crate::room::*;
use mesh_core::graph::Graph;
use mesh_core::program::{Generator, Scalar};

/// Bounds and moments are of f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Distribution {
    /// In `[low, high)`; of i32, every whole number there.
    Uniform {
        low: Scalar,
        high: Scalar,
    },
    Normal {
        mean: Scalar,
        stddev: Scalar,
    },
    /// Cut at two standard deviations.
    TruncatedNormal {
        mean: Scalar,
        stddev: Scalar,
    },
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Random {
    /// Hash of the operation's unique name.
    key: u64,
    distribution: Distribution,
    ty: TensorType,
}

/// Uniform numbers in `[low, high)`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let noise = mesh_ops::random::random_uniform(&g, [dim("x", 4)], -1.0, 1.0, F32);
/// assert_eq!(noise.shape().to_string(), "[x:4]");
/// ```
#[track_caller]
pub fn random_uniform(
    graph: &Graph,
    dims: impl IntoIterator<Item = Dimension>,
    low: f64,
    high: f64,
    dtype: DType,
) -> Tensor<'_> {
    if low == high {
        return graph.fill(low, dims, dtype);
    }
    let (low, high) = (number(low), number(high));
    random(graph, dims, Distribution::Uniform { low, high }, dtype)
}

/// Whole numbers of `low..high`, each as likely as the others (within 2^-21); i32.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let dice = mesh_ops::random::random_integer(&g, [dim("x", 4)], 1, 7);
/// assert_eq!(dice.dtype(), I32);
/// ```
#[track_caller]
pub fn random_integer(
    graph: &Graph,
    dims: impl IntoIterator<Item = Dimension>,
    low: i32,
    high: i32,
) -> Tensor<'_> {
    let (low, high) = (number(f64::from(low)), number(f64::from(high)));
    random(graph, dims, Distribution::Uniform { low, high }, DType::I32)
}

/// Normal numbers.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let noise = mesh_ops::random::random_normal(&g, [dim("x", 4)], 0.0, 1.0, F32);
/// assert_eq!(noise.shape().to_string(), "[x:4]");
/// ```
#[track_caller]
pub fn random_normal(
    graph: &Graph,
    dims: impl IntoIterator<Item = Dimension>,
    mean: f64,
    stddev: f64,
    dtype: DType,
) -> Tensor<'_> {
    if stddev == 0.0 {
        return graph.fill(mean, dims, dtype);
    }
    let (mean, stddev) = (number(mean), number(stddev));
    random(graph, dims, Distribution::Normal { mean, stddev }, dtype)
}

/// Normal numbers, those beyond two standard deviations drawn again: their deviation is 0.88
/// `stddev`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let noise = mesh_ops::random::random_truncated_normal(&g, [dim("x", 4)], 0.0, 1.0, F32);
/// assert_eq!(noise.shape().to_string(), "[x:4]");
/// ```
#[track_caller]
pub fn random_truncated_normal(
    graph: &Graph,
    dims: impl IntoIterator<Item = Dimension>,
    mean: f64,
    stddev: f64,
    dtype: DType,
) -> Tensor<'_> {
    if stddev == 0.0 {
        return graph.fill(mean, dims, dtype);
    }
    let (mean, stddev) = (number(mean), number(stddev));
    random(graph, dims, Distribution::TruncatedNormal { mean, stddev }, dtype)
}

fn number(value: f64) -> Scalar {
    Scalar::new(DType::F64, value)
}

#[track_caller]
fn random(
    graph: &Graph,
    dims: impl IntoIterator<Item = Dimension>,
    distribution: Distribution,
    dtype: DType,
) -> Tensor<'_> {
    match Shape::new(dims) {
        Ok(shape) => {
            let ty = TensorType::new(shape, dtype);
            let op = |key| Random { key, distribution, ty };
            graph.apply_keyed(distribution.name(), op, &graph.iteration_salts())
        }
        Err(error) => {
            graph.record(distribution.name(), error.to_string());
            graph.scalar(0.0, dtype).poisoned()
        }
    }
}

/// The name of operations that draw uniform numbers.
pub(crate) const UNIFORM: &str = "random_uniform";

/// The uniform numbers of f32 in `[0, 1)` of an operation of this key.
#[track_caller]
pub(crate) fn uniform_of<'g>(
    graph: &'g Graph,
    key: u64,
    salts: &[Tensor<'g>],
    shape: Shape,
) -> Tensor<'g> {
    let distribution = Distribution::Uniform { low: number(0.0), high: number(1.0) };
    graph.apply1(Random { key, distribution, ty: TensorType::new(shape, DType::F32) }, salts)
}

impl Distribution {
    fn name(self) -> &'static str {
        match self {
            Self::Uniform { .. } => UNIFORM,
            Self::Normal { .. } => "random_normal",
            Self::TruncatedNormal { .. } => "random_truncated_normal",
        }
    }

    fn check(self, dtype: DType) -> Result<(), String> {
        let (Self::Uniform { low: a, high: b }
        | Self::Normal { mean: a, stddev: b }
        | Self::TruncatedNormal { mean: a, stddev: b }) = self;
        if dtype.is_float() {
            Scalar::checked(dtype, a.value())?;
            Scalar::checked(dtype, b.value())?;
        }
        match self {
            Self::Uniform { low, high } => {
                let (low, high) = (low.value(), high.value());
                if !(low < high && (high - low).is_finite()) {
                    return Err(format!("low < high is needed, not {low} and {high}"));
                }
                let ends = f64::from(i32::MIN)..=f64::from(i32::MAX);
                let whole = |x: f64| x.fract() == 0.0 && ends.contains(&x);
                if dtype == DType::Bool || dtype == DType::I32 && !(whole(low) && whole(high)) {
                    return Err(format!("there are no random {dtype} from {low} to {high}"));
                }
            }
            Self::Normal { mean, stddev } | Self::TruncatedNormal { mean, stddev } => {
                let (mean, stddev) = (mean.value(), stddev.value());
                if !dtype.is_float() {
                    return Err(format!("normal numbers are floats, not {dtype}"));
                }
                if !(mean.is_finite() && stddev.is_finite() && stddev > 0.0) {
                    return Err(format!(
                        "a finite mean and stddev >= 0 are needed, not {mean} and {stddev}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Op for Random {
    fn name(&self) -> &'static str {
        self.distribution.name()
    }
    fn outputs(&self, types: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        if let Some(other) = types.iter().find(|ty| !ty.shape.is_scalar() || ty.dtype != DType::I32)
        {
            return Err(OpError::new(format!("a round is a scalar of i32, not {other}")));
        }
        self.distribution.check(self.ty.dtype).map_err(OpError::new)?;
        Ok(vec![self.ty.clone()])
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel()
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        let key = self.key;
        let generator = match self.distribution {
            Distribution::Uniform { low, high } => {
                Generator::Uniform { key, low: low.value(), high: high.value() }
            }
            Distribution::Normal { mean, stddev } => {
                Generator::Normal { key, mean: mean.value(), stddev: stddev.value() }
            }
            Distribution::TruncatedNormal { mean, stddev } => {
                Generator::TruncatedNormal { key, mean: mean.value(), stddev: stddev.value() }
            }
        };
        let rounds = cx.inputs();
        cx.generate_salted(generator, &rounds)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Grads<'g> {
        Ok(vec![None; cx.arity()])
    }
}
