//! `dense`: a linear map with a bias and an activation.

use super::fit::Fit;
use super::parameters::weights;
use super::{Activation, Parameters};
use crate::room::*;
use mesh_core::graph::{Fan, Graph, Initializer};

/// A linear map from some dims to others: variables `{name}/kernel` and `{name}/bias`.
///
/// A summed dim that is also produced has the name `_name` in the kernel; if it is split, `x` is
/// gathered along it, since the kernel's private dim is not.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, rows, cols, hidden) = (dim("batch", 4), dim("r", 7), dim("c", 7), dim("h", 16));
/// let x = g.input("x", [batch, rows, cols], F32);
/// let h = mesh_ops::layers::Dense::onto([hidden]).over([rows, cols]).apply(x, "hidden1");
/// assert_eq!(h.shape().to_string(), "[batch:4, h:16]");
///
/// use mesh_ops::layers::{Activation, Dense, Parameters};
/// let experts = Dense::onto([hidden]).over([rows, cols]).for_each([dim("experts", 2)]);
/// let experts = experts.activation(Activation::Tanh).without_bias().unit_scaling();
/// let weights = experts.weights(&Parameters::like(x), "experts");
/// assert_eq!(experts.apply_with(x, &weights).shape().to_string(), "[batch:4, experts:2, h:16]");
///
/// let zeros = Dense::onto([hidden]).initializer(Initializer::ZEROS);
/// assert_eq!(zeros.apply(h, "zeros").shape().to_string(), "[batch:4, h:16]");
/// ```
#[derive(Clone, Debug)]
pub struct Dense {
    outputs: Vec<Dimension>,
    reduced: Option<Vec<Dimension>>,
    experts: Vec<Dimension>,
    bias: bool,
    activation: Activation,
    initializer: Option<Initializer>,
    unit_scaling: bool,
}

/// Kernel `[experts, summed, outputs]` and bias `[experts, outputs]` of a [`Dense`].
#[derive(Clone, Copy, Debug)]
pub struct DenseWeights<'g> {
    /// The factors.
    pub kernel: Tensor<'g>,
    /// What is added, if anything.
    pub bias: Option<Tensor<'g>>,
}
weights!(DenseWeights { kernel, bias });

impl Dense {
    /// A map onto these dims, by default from the input's last dim, with a bias of zeros and a
    /// kernel of standard deviation `sqrt(1 / inputs)`.
    pub fn onto(outputs: impl IntoIterator<Item = Dimension>) -> Self {
        Self {
            outputs: outputs.into_iter().collect(),
            reduced: None,
            experts: Vec::new(),
            bias: true,
            activation: Activation::Linear,
            initializer: None,
            unit_scaling: false,
        }
    }

    /// The dims that are summed over.
    pub fn over(mut self, reduced: impl IntoIterator<Item = Dimension>) -> Self {
        self.reduced = Some(reduced.into_iter().collect());
        self
    }

    /// A kernel and bias of its own for each index of these dims; those that the input lacks are dims
    /// of the result all the same.
    pub fn for_each(mut self, experts: impl IntoIterator<Item = Dimension>) -> Self {
        self.experts = experts.into_iter().collect();
        self
    }

    /// No bias.
    pub fn without_bias(mut self) -> Self {
        self.bias = false;
        self
    }

    /// What is applied to the result.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// Another initial kernel.
    pub fn initializer(mut self, initializer: Initializer) -> Self {
        self.initializer = Some(initializer);
        self
    }

    /// The kernel starts with standard deviation 1, and products are divided by `sqrt(inputs)`
    /// instead: every weight then wants the same learning rate.
    pub fn unit_scaling(mut self) -> Self {
        self.unit_scaling = true;
        self
    }

    /// The summed dims as the kernel has them.
    fn inner(&self, reduced: &[Dimension]) -> Vec<Dimension> {
        let produced = |d: &Dimension| self.outputs.iter().any(|output| output.name == d.name);
        let inner =
            |d: &Dimension| if produced(d) { d.renamed(&format!("_{}", d.name)) } else { *d };
        reduced.iter().map(inner).collect()
    }

    fn kernel(&self, inner: &[Dimension]) -> Vec<Dimension> {
        self.experts.iter().chain(inner).chain(&self.outputs).copied().collect()
    }

    /// New variables; the summed dims must have been given.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> DenseWeights<'g> {
        let _layer = parameters.graph().for_layer("dense");
        match &self.reduced {
            Some(reduced) => {
                let _scope = parameters.scope(name);
                self.make(parameters, reduced)
            }
            None => {
                let kernel = refuse(parameters.graph(), name, "say what to sum with Dense::over");
                DenseWeights { kernel, bias: None }
            }
        }
    }

    #[track_caller]
    fn make<'g>(&self, parameters: &Parameters<'g>, reduced: &[Dimension]) -> DenseWeights<'g> {
        let inner = self.inner(reduced);
        let fan = if self.unit_scaling { &[][..] } else { &inner };
        let scaled = || Initializer::variance_scaling(1.0, Fan::In, fan, &self.outputs);
        let initializer = self.initializer.unwrap_or_else(scaled);
        let kernel = parameters.variable("kernel", self.kernel(&inner), initializer);
        let mut bias = None;
        // What is wrong with the kernel's dims is on record; once is enough.
        if self.bias && !kernel.is_poisoned() {
            bias = Some(parameters.variable("bias", self.kernel(&[]), Initializer::ZEROS));
        }
        DenseWeights { kernel, bias }
    }

    /// The map with new variables.
    #[track_caller]
    pub fn apply<'g>(&self, x: Tensor<'g>, name: &str) -> Tensor<'g> {
        let _layer = x.graph().for_layer("dense");
        if x.is_poisoned() {
            return x;
        }
        let own = x.shape();
        let Some(reduced) = self.reduced.clone().or_else(|| own.dims().last().map(|d| vec![*d]))
        else {
            return refuse(x.graph(), name, "dense needs a dim to sum over");
        };
        if let Some(poisoned) = fit(x, &reduced).refused("dense", x) {
            return poisoned;
        }
        let _scope = x.graph().scope(name);
        let weights = self.make(&Parameters::like(x), &reduced);
        self.clone().over(reduced).apply_with(x, &weights)
    }

    /// The map with given weights.
    #[track_caller]
    pub fn apply_with<'g>(&self, x: Tensor<'g>, weights: &DenseWeights<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("dense");
        let own = x.shape();
        let reduced = self
            .reduced
            .clone()
            .unwrap_or_else(|| own.dims().last().copied().into_iter().collect());
        let inner = self.inner(&reduced);
        let fit = fit(x, &reduced).and(weights.kernel, || self.misfit(weights, &inner));
        let given = std::iter::once(weights.kernel).chain(weights.bias);
        let fit = given.fold(fit, |fit, weight| fit.like("the weight", weight, x));
        if let Some(poisoned) = fit.refused("dense", x) {
            return poisoned;
        }
        let mut input = x;
        for (dim, private) in reduced.iter().zip(&inner) {
            if dim != private {
                input = crate::rename(input, *dim, private.name.as_str());
            }
        }
        let kept = own.iter().filter(|d| !reduced.contains(d));
        let mut output: Vec<_> = kept.collect();
        output.extend(self.experts.iter().filter(|d| !own.contains(d.name)));
        output.extend(&self.outputs);
        let mut y = crate::einsum::einsum(input, &[weights.kernel], output);
        if self.unit_scaling {
            let inputs: f64 = inner.iter().map(|d| d.size as f64).product();
            y = y * inputs.max(1.0).powf(-0.5);
        }
        if let Some(bias) = weights.bias {
            y = y + bias;
        }
        self.activation.apply(y)
    }

    /// What is wrong with given weights.
    fn misfit(&self, weights: &DenseWeights<'_>, inner: &[Dimension]) -> Option<String> {
        let bias = weights.bias.map(|bias| (bias, self.kernel(&[])));
        let expected = std::iter::once((weights.kernel, self.kernel(inner))).chain(bias);
        expected
            .filter(|(given, _)| !given.is_poisoned())
            .find(|(given, dims)| {
                let shape = Shape::new(dims.iter().copied());
                shape.is_ok_and(|shape| !shape.is_permutation_of(&given.shape()))
            })
            .map(|(given, dims)| format!("{given:?} is no weight of dims {dims:?}"))
    }
}

/// That `x` is of floats and has the dims that are summed.
fn fit(x: Tensor<'_>, reduced: &[Dimension]) -> Fit {
    reduced.iter().fold(Fit::new().floats("the input", x), |fit, dim| fit.has("the input", x, *dim))
}

#[track_caller]
fn refuse<'g>(graph: &'g Graph, subject: &str, message: &str) -> Tensor<'g> {
    graph.record(subject, message);
    graph.scalar(0.0, DType::F32).poisoned()
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
