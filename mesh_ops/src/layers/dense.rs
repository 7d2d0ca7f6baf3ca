//! `dense`: a linear map with a bias.

use crate::room::*;
use mesh_core::graph::{Fan, Initializer};

/// A linear map from some dims to others: variables `{name}/kernel` and `{name}/bias`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, rows, cols, hidden) = (dim("batch", 4), dim("r", 7), dim("c", 7), dim("h", 16));
/// let x = g.input("x", [batch, rows, cols], F32);
/// let h = mesh_ops::layers::Dense::onto([hidden]).over([rows, cols]).apply(x, "hidden1");
/// assert_eq!(h.shape().to_string(), "[batch:4, h:16]");
/// ```
#[derive(Clone, Debug)]
pub struct Dense {
    outputs: Vec<Dimension>,
    reduced: Option<Vec<Dimension>>,
    bias: bool,
    initializer: Option<Initializer>,
}

impl Dense {
    /// A map onto these dims, by default from the input's last dim, with a bias of zeros and a
    /// kernel of standard deviation `sqrt(1 / inputs)`.
    pub fn onto(outputs: impl IntoIterator<Item = Dimension>) -> Self {
        let outputs = outputs.into_iter().collect();
        Self { outputs, reduced: None, bias: true, initializer: None }
    }

    /// The dims that are summed over.
    pub fn over(mut self, reduced: impl IntoIterator<Item = Dimension>) -> Self {
        self.reduced = Some(reduced.into_iter().collect());
        self
    }

    /// No bias.
    pub fn without_bias(mut self) -> Self {
        self.bias = false;
        self
    }

    /// Another initial kernel.
    pub fn initializer(mut self, initializer: Initializer) -> Self {
        self.initializer = Some(initializer);
        self
    }

    /// Applies the map to a tensor; a summed dim that is also produced is renamed to `_name` first.
    #[track_caller]
    pub fn apply<'g>(&self, x: Tensor<'g>, name: &str) -> Tensor<'g> {
        let graph = x.graph();
        let own = x.shape();
        let reduced = self.reduced.clone().or_else(|| own.dims().last().map(|d| vec![*d]));
        let Some(reduced) = reduced.filter(|_| !x.is_poisoned()) else {
            if !x.is_poisoned() {
                graph.record(name, "dense needs a dim to sum over");
            }
            return x.poisoned();
        };
        let (mut x, mut inner) = (x, Vec::new());
        for dim in reduced {
            if self.outputs.iter().any(|d| d.name == dim.name) {
                let other = format!("_{}", dim.name);
                x = crate::rename(x, dim, &other);
                inner.push(dim.renamed(&other));
            } else {
                inner.push(dim);
            }
        }
        let initializer = self
            .initializer
            .unwrap_or_else(|| Initializer::variance_scaling(1.0, Fan::In, &inner, &self.outputs));
        let _scope = graph.scope(name);
        let dims = inner.iter().chain(&self.outputs).copied();
        let kernel = graph.variable("kernel", dims, x.dtype(), initializer).value();
        if kernel.is_poisoned() {
            return kernel;
        }
        let kept = x.shape().iter().filter(|d| !inner.contains(d)).collect::<Vec<_>>();
        let output = kept.into_iter().chain(self.outputs.iter().copied());
        let y = crate::einsum::einsum(x, &[kernel], output);
        if !self.bias {
            return y;
        }
        let zeros = Initializer::ZEROS;
        y + graph.variable("bias", self.outputs.iter().copied(), x.dtype(), zeros).value()
    }
}

/// A dense layer from the last dim of `x` onto `output`.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("batch", 4), dim("pixels", 784)], F32);
/// let h = mesh_ops::layers::dense(x, dim("hidden", 32), "hidden");
/// assert_eq!(h.shape().to_string(), "[batch:4, hidden:32]");
/// ```
#[track_caller]
pub fn dense<'g>(x: Tensor<'g>, output: Dimension, name: &str) -> Tensor<'g> {
    Dense::onto([output]).apply(x, name)
}
