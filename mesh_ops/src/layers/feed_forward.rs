//! Two dense layers with an activation between them, perhaps gated.

use super::fit::Fit;
use super::parameters::weights;
use super::{Activation, Dense, DenseWeights, Parameters};
use crate::room::*;

/// From `model` to `hidden` and back. With several activations the hidden values are the product of
/// as many dense layers, each with its activation: a gated linear unit.
///
/// With `hidden` split this costs one all-reduce forward and one backward.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::{Activation, FeedForward, Parameters};
/// # let g = mesh_ops::graph();
/// let (batch, model, hidden) = (dim("batch", 4), dim("model", 8), dim("hidden", 32));
/// let gated = FeedForward::new(model, hidden).activations([Activation::Swish, Activation::Linear]);
/// let x = g.input("x", [batch, model], F32);
/// let weights = gated.weights(&Parameters::like(x), "mlp");
/// assert_eq!(gated.apply(x, &weights).shape(), x.shape());
///
/// // In two steps, with biases and weights for each expert.
/// let experts = FeedForward::new(model, hidden).for_each([dim("experts", 2)]).with_bias();
/// let weights = experts.weights(&Parameters::like(x), "experts");
/// let h = experts.hidden(x, &weights).dropout(0.1);
/// assert_eq!(experts.output(h, &weights).shape().to_string(), "[batch:4, experts:2, model:8]");
/// ```
#[derive(Clone, Debug)]
pub struct FeedForward {
    /// The dim of its input and output.
    pub model: Dimension,
    /// The dim between.
    pub hidden: Dimension,
    activations: Vec<Activation>,
    experts: Vec<Dimension>,
    bias: bool,
}

/// Weights of a [`FeedForward`].
#[derive(Clone, Debug)]
pub struct FeedForwardWeights<'g> {
    /// One for each activation.
    pub inputs: Vec<DenseWeights<'g>>,
    /// Back to the model.
    pub output: DenseWeights<'g>,
}
weights!(FeedForwardWeights { inputs, output });

impl FeedForward {
    /// One activation, relu; no biases.
    pub fn new(model: Dimension, hidden: Dimension) -> Self {
        Self {
            model,
            hidden,
            activations: vec![Activation::Relu],
            experts: Vec::new(),
            bias: false,
        }
    }

    /// The factors of the hidden values.
    pub fn activations(mut self, activations: impl IntoIterator<Item = Activation>) -> Self {
        self.activations = activations.into_iter().collect();
        self
    }

    /// Weights of its own for each index of these dims.
    pub fn for_each(mut self, experts: impl IntoIterator<Item = Dimension>) -> Self {
        self.experts = experts.into_iter().collect();
        self
    }

    /// Biases in all dense layers.
    pub fn with_bias(mut self) -> Self {
        self.bias = true;
        self
    }

    fn dense(&self, from: Dimension, onto: Dimension) -> Dense {
        let dense = Dense::onto([onto]).over([from]).for_each(self.experts.iter().copied());
        if self.bias { dense } else { dense.without_bias() }
    }

    /// New variables under `{name}/`: `wi`, or `wi_0`, `wi_1`, ... if gated, and `wo`.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> FeedForwardWeights<'g> {
        let _layer = parameters.graph().for_layer("feed_forward");
        let _scope = parameters.scope(name);
        self.make(parameters)
    }

    #[track_caller]
    fn make<'g>(&self, parameters: &Parameters<'g>) -> FeedForwardWeights<'g> {
        let (wi, wo) = (self.dense(self.model, self.hidden), self.dense(self.hidden, self.model));
        let mut inputs = Vec::new();
        for i in 0..self.activations.len() {
            let alone = self.activations.len() == 1;
            let name = if alone { "wi".to_owned() } else { format!("wi_{i}") };
            inputs.push(wi.weights(parameters, &name));
        }
        FeedForwardWeights { inputs, output: wo.weights(parameters, "wo") }
    }

    /// The hidden values.
    #[track_caller]
    pub fn hidden<'g>(&self, x: Tensor<'g>, weights: &FeedForwardWeights<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("feed_forward");
        let dense = self.dense(self.model, self.hidden);
        product(x, &dense, &self.activations, &weights.inputs)
    }

    /// From hidden values back to the model.
    #[track_caller]
    pub fn output<'g>(&self, h: Tensor<'g>, weights: &FeedForwardWeights<'g>) -> Tensor<'g> {
        let _layer = h.graph().for_layer("feed_forward");
        self.dense(self.hidden, self.model).apply_with(h, &weights.output)
    }

    /// Both; a caller who wants dropout between them calls the halves.
    #[track_caller]
    pub fn apply<'g>(&self, x: Tensor<'g>, weights: &FeedForwardWeights<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("feed_forward");
        self.output(self.hidden(x, weights), weights)
    }
}

#[track_caller]
fn product<'g>(
    x: Tensor<'g>,
    dense: &Dense,
    activations: &[Activation],
    weights: &[DenseWeights<'g>],
) -> Tensor<'g> {
    if activations.is_empty() || activations.len() != weights.len() {
        let (factors, weights) = (activations.len(), weights.len());
        let message = format!("{factors} activations and {weights} weights; one of each is needed");
        x.graph().record("dense_product", message);
        return x.poisoned();
    }
    let mut product = None;
    for (&activation, weights) in activations.iter().zip(weights) {
        let factor = dense.clone().activation(activation).apply_with(x, weights);
        product = Some(match product {
            None => factor,
            Some(before) => before * factor,
        });
    }
    product.unwrap_or(x)
}

/// The product of as many dense layers as there are activations, with variables `{name}/0/kernel`
/// and so on. The activation of `dense` itself is not used.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::{Activation, Dense, dense_product};
/// # let g = mesh_ops::graph();
/// let (batch, model, hidden) = (dim("batch", 4), dim("model", 8), dim("hidden", 32));
/// let x = g.input("x", [batch, model], F32);
/// let gates = [Activation::Sigmoid, Activation::Linear];
/// let h = dense_product(x, &Dense::onto([hidden]), &gates, "glu");
/// assert_eq!(h.shape().to_string(), "[batch:4, hidden:32]");
/// ```
#[track_caller]
pub fn dense_product<'g>(
    x: Tensor<'g>,
    dense: &Dense,
    activations: &[Activation],
    name: &str,
) -> Tensor<'g> {
    let _layer = x.graph().for_layer("dense_product");
    if activations.is_empty() {
        return product(x, dense, activations, &[]);
    }
    let _scope = x.graph().scope(name);
    let mut product = None;
    for (i, &activation) in activations.iter().enumerate() {
        let factor = dense.clone().activation(activation).apply(x, &i.to_string());
        product = Some(match product {
            None => factor,
            Some(before) => before * factor,
        });
    }
    product.unwrap_or(x)
}

/// The last dim of `x` through `hidden` values and back, with relu between and biases: variables
/// `{name}/wi/kernel` and so on.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let x = g.input("x", [dim("batch", 4), dim("model", 8)], F32);
/// let y = mesh_ops::layers::dense_relu_dense(x, dim("hidden", 32), "mlp");
/// assert_eq!(y.shape(), x.shape());
/// ```
#[track_caller]
pub fn dense_relu_dense<'g>(x: Tensor<'g>, hidden: Dimension, name: &str) -> Tensor<'g> {
    let _layer = x.graph().for_layer("dense_relu_dense");
    let Some(model) = x.shape().dims().last().copied() else {
        if !x.is_poisoned() {
            x.graph().record(name, "dense_relu_dense needs a dim to sum over");
        }
        return x.poisoned();
    };
    if let Some(poisoned) = Fit::new().floats("the input", x).refused("dense_relu_dense", x) {
        return poisoned;
    }
    let layer = FeedForward::new(model, hidden).with_bias();
    let _scope = x.graph().scope(name);
    let weights = layer.make(&Parameters::like(x));
    layer.apply(x, &weights)
}
