//! Stochastic gradient descent (Robbins & Monro 1951): `w <- w - lr g`.

use crate::{LearningRate, Optimizer};
use mesh_core::graph::{Tensor, Update, Variable};
use mesh_ops::elementwise::cast;

/// Stochastic gradient descent.
#[derive(Clone, Debug)]
pub struct Sgd {
    /// The learning rate.
    pub learning_rate: LearningRate,
}

impl Sgd {
    /// Descent with a learning rate.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{Optimizer, Sgd};
    ///
    /// g.function("train", [x], [loss], Sgd::new(0.1).minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
