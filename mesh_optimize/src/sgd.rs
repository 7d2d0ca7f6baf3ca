//! Stochastic gradient descent (Robbins & Monro 1951): `w <- w - lr g`.

use crate::{LearningRate, Optimizer};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::cast;

/// Stochastic gradient descent.
#[derive(Clone, Debug)]
pub struct Sgd {
    /// Step size.
    pub learning_rate: LearningRate,
}

impl Sgd {
    /// Descent with a step size.
    pub fn new(learning_rate: impl Into<LearningRate>) -> Self {
        Self { learning_rate: learning_rate.into() }
    }
}

impl Optimizer for Sgd {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let rate = self.learning_rate.at(grad.graph(), grad.dtype());
        vec![variable.assign_sub(cast(grad * rate, variable.dtype()))]
    }
    fn slot_names(&self) -> Vec<&'static str> {
        Vec::new()
    }
}
