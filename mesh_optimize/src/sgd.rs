//! Stochastic gradient descent: `w -= lr * g`.

use crate::Optimizer;
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::cast;

/// Stochastic gradient descent.
#[derive(Clone, Debug)]
pub struct Sgd {
    /// Step size.
    pub learning_rate: f64,
}

impl Sgd {
    /// Descent with a step size.
    pub fn new(learning_rate: f64) -> Self {
        Self { learning_rate }
    }
}

impl Optimizer for Sgd {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        vec![variable.assign_sub(cast(grad * self.learning_rate, variable.dtype()))]
    }
}
