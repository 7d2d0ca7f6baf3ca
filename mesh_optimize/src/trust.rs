//! Steps in proportion to the norm of what they change (You et al. 2017, arXiv 1708.03888).

use crate::descent::Descent;
use crate::{Schedule, pattern};
use mesh_core::graph::Tensor;
use mesh_core::names::Dimension;
use mesh_ops::elementwise::{greater, logical_and, select, sqrt, square};
use mesh_ops::reduce::sum;

/// How the step of a variable follows from its norm: by `coefficient norm(w) / (norm(step) + epsilon)`. If a
/// norm is 0 the step stays as it is.
///
/// ```
/// use mesh_optimize::{Lamb, TrustRatio};
///
/// // Along `layers`, twelve layers' kernels lie in one variable: each has a norm of its own.
/// let ratio = TrustRatio { stacked_dims: vec!["layers".to_owned()], ..TrustRatio::new(1.0) };
/// let lamb = Lamb { ratio, ..Lamb::new(1e-3) };
/// ```
#[derive(Clone, Debug)]
pub struct TrustRatio {
    /// The factor of all steps.
    pub coefficient: Schedule,
    /// A small number that is added to the norm of the step.
    pub epsilon: Schedule,
    /// Regular expressions. A variable in whose name one of them matches takes steps that do not depend on
    /// its norm.
    pub exclude: Vec<String>,
    /// The names of dims along which variables of equal shape are stacked. Each of them has its own norm.
    pub stacked_dims: Vec<String>,
}

impl TrustRatio {
    /// The ratio of the norms times `coefficient`, for every variable.
    pub fn new(coefficient: impl Into<Schedule>) -> Self {
        Self {
            coefficient: coefficient.into(),
            epsilon: 0.0.into(),
            exclude: Vec::new(),
            stacked_dims: Vec::new(),
        }
    }

    /// `step` times the ratio.
    pub(crate) fn scaled<'g>(&self, descent: &Descent<'_, 'g>, step: Tensor<'g>) -> Tensor<'g> {
        if pattern::found(descent.graph(), "ratio_exclude", &self.exclude, &descent.name()) {
            return step;
        }
        let value = descent.value();
        let stacked = |dim: &Dimension| self.stacked_dims.iter().any(|s| s == dim.name.as_str());
        let dims: Vec<_> = value.shape().iter().filter(|dim| !stacked(dim)).collect();
        let norm = |x: Tensor<'g>| sqrt(sum(square(x), dims.clone()));
        let (of_value, of_step) = (norm(value), norm(step));
        let (zero, one) = (descent.scalar(0.0), descent.scalar(1.0));
        let some = logical_and(greater(of_value, zero), greater(of_step, zero));
        let divisor = select(some, of_step + &self.epsilon, one);
        step * select(some, of_value * &self.coefficient / divisor, one)
    }
}
