//! `batch_norm`: every feature scaled by its statistics over all examples of the batch.
//!
//! The statistics are those of the whole batch, however it is split: two all-reduces of the size
//! of the kept dims forward.

use super::Parameters;
use super::fit::Fit;
use super::norm::{NORM_EPSILON, scaled};
use crate::elementwise::{cast, square};
use crate::reduce::mean;
use crate::room::*;
use mesh_core::graph::{Initializer, Update, Variable};

/// Normalises over all dims but those kept, with a scale and a bias for each index of the kept dims.
///
/// Training uses the batch's own mean and variance (divided by the number of examples) and moves
/// averages of them; evaluation uses the averages. These start at mean 0 and variance 1, and a
/// training call moves them to `momentum * average + (1 - momentum) * batch`. The number added to
/// variances is 1e-6, not Mesh TensorFlow's 1e-9, which is nothing beside a variance of 1 in f32.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::layers::{BatchNorm, Parameters};
/// # let g = mesh_ops::graph();
/// let (batch, features) = (dim("batch", 4), dim("features", 8));
/// let x = g.input("x", [batch, features], F32);
/// let norm = BatchNorm::keeping([features]).momentum(0.99).epsilon(1e-5).zero_scale();
/// let weights = norm.weights(&Parameters::like(x), "norm");
/// let (y, updates) = norm.train(x, &weights);
/// g.function("train", [x], [y], updates);
/// g.function("evaluate", [x], [norm.evaluate(x, &weights)], []);
/// ```
#[derive(Clone, Debug)]
pub struct BatchNorm {
    kept: Vec<Dimension>,
    momentum: f64,
    epsilon: f64,
    zero_scale: bool,
}

/// Variables of a [`BatchNorm`].
#[derive(Clone, Copy, Debug)]
pub struct BatchNormWeights<'g> {
    /// Ones at first.
    pub scale: Tensor<'g>,
    /// Zeros at first.
    pub bias: Tensor<'g>,
    /// Average of the batches' means.
    pub mean: Variable<'g>,
    /// Average of the batches' variances.
    pub variance: Variable<'g>,
}

impl BatchNorm {
    /// Statistics for each index of these dims; momentum 0.9.
    pub fn keeping(kept: impl IntoIterator<Item = Dimension>) -> Self {
        let kept = kept.into_iter().collect();
        Self { kept, momentum: 0.9, epsilon: NORM_EPSILON, zero_scale: false }
    }

    /// How much of the averages a training call keeps.
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }

    /// What is added to variances.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// The scale starts at 0, so that a residual branch starts as nothing.
    pub fn zero_scale(mut self) -> Self {
        self.zero_scale = true;
        self
    }

    /// New variables `{name}/scale`, `/bias`, `/moving_mean` and `/moving_variance`; the averages
    /// are in the reduction dtype and have no stacked dims.
    #[track_caller]
    pub fn weights<'g>(&self, parameters: &Parameters<'g>, name: &str) -> BatchNormWeights<'g> {
        let _layer = parameters.graph().for_layer("batch_norm");
        let _scope = parameters.scope(name);
        self.make(parameters)
    }

    #[track_caller]
    fn make<'g>(&self, parameters: &Parameters<'g>) -> BatchNormWeights<'g> {
        let (kept, graph) = (|| self.kept.iter().copied(), parameters.graph());
        let scale = if self.zero_scale { Initializer::ZEROS } else { Initializer::ONES };
        let scale = parameters.variable("scale", kept(), scale);
        let wide = scale.dtype().reduction();
        BatchNormWeights {
            scale,
            bias: parameters.variable("bias", kept(), Initializer::ZEROS),
            mean: graph.state("moving_mean", kept(), wide, Initializer::ZEROS),
            variance: graph.state("moving_variance", kept(), wide, Initializer::ONES),
        }
    }

    /// That `x` is of floats and has the kept dims.
    fn fit(&self, x: Tensor<'_>) -> Fit {
        self.kept
            .iter()
            .fold(Fit::new().floats("the input", x), |fit, dim| fit.has("the input", x, *dim))
    }

    #[track_caller]
    fn refused<'g>(&self, x: Tensor<'g>, weights: &BatchNormWeights<'g>) -> Option<Tensor<'g>> {
        let fit = self.fit(x).like("the scale", weights.scale, x).like("the bias", weights.bias, x);
        let fit = fit.among("the scale", weights.scale, &x.shape());
        let fit = fit.among("the bias", weights.bias, &x.shape());
        let averages = [weights.mean, weights.variance];
        let stray = averages.iter().find(|v| v.shape().iter().any(|d| !self.kept.contains(&d)));
        let problem =
            || stray.map(|v| format!("the average {v:?} may have the dims {:?}", self.kept));
        fit.and(x, problem).refused("batch_norm", x)
    }

    /// `x` normalised by its own statistics, and the updates of the averages.
    #[track_caller]
    pub fn train<'g>(
        &self,
        x: Tensor<'g>,
        weights: &BatchNormWeights<'g>,
    ) -> (Tensor<'g>, Vec<Update<'g>>) {
        let _layer = x.graph().for_layer("batch_norm");
        if let Some(poisoned) = self.refused(x, weights) {
            return (poisoned, Vec::new());
        }
        let wide = cast(x, x.dtype().reduction());
        let own = x.shape();
        let over = || own.iter().filter(|d| !self.kept.contains(d));
        let average = mean(wide, over());
        let centred = wide - average;
        let variance = mean(square(centred), over());
        let y = self.scaled((centred, variance), x.dtype(), weights);
        let mut updates = Vec::new();
        for (variable, batch) in [(weights.mean, average), (weights.variance, variance)] {
            let batch = batch.stop_gradient();
            let moved = variable.value() * self.momentum + batch * (1.0 - self.momentum);
            updates.push(variable.assign(moved));
        }
        (y, updates)
    }

    /// `x` normalised by the averages.
    #[track_caller]
    pub fn evaluate<'g>(&self, x: Tensor<'g>, weights: &BatchNormWeights<'g>) -> Tensor<'g> {
        let _layer = x.graph().for_layer("batch_norm");
        if let Some(poisoned) = self.refused(x, weights) {
            return poisoned;
        }
        let centred = cast(x, x.dtype().reduction()) - weights.mean.value();
        self.scaled((centred, weights.variance.value()), x.dtype(), weights)
    }

    #[track_caller]
    fn scaled<'g>(
        &self,
        (centred, variance): (Tensor<'g>, Tensor<'g>),
        dtype: DType,
        weights: &BatchNormWeights<'g>,
    ) -> Tensor<'g> {
        let moments = (centred, variance, self.epsilon);
        scaled(moments, weights.scale, Some(weights.bias), dtype)
    }
}

/// `x` normalised by the statistics of the batch, over all dims but `kept`, and the updates that
/// average them; see [`BatchNorm`], which also evaluates.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// let (batch, features) = (dim("batch", 4), dim("features", 8));
/// let x = g.input("x", [batch, features], F32);
/// let (y, updates) = mesh_ops::layers::batch_norm(x, [features], "norm");
/// assert_eq!((y.shape(), updates.len()), (x.shape(), 2));
/// ```
#[track_caller]
pub fn batch_norm<'g>(
    x: Tensor<'g>,
    kept: impl IntoIterator<Item = Dimension>,
    name: &str,
) -> (Tensor<'g>, Vec<Update<'g>>) {
    let _layer = x.graph().for_layer("batch_norm");
    let norm = BatchNorm::keeping(kept);
    if let Some(poisoned) = norm.fit(x).refused("batch_norm", x) {
        return (poisoned, Vec::new());
    }
    let _scope = x.graph().scope(name);
    let weights = norm.make(&Parameters::like(x));
    norm.train(x, &weights)
}
