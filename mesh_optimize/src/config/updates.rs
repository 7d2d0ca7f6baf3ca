//! `get_optimizer`: from a loss and a configuration to updates.

use super::OptimizerConfig;
use crate::clip::{Pair, clip_by_global_norm, full_precision};
use crate::{Optimizer, Units, adaptive_clip};
use mesh_core::graph::{GradCx, Graph, Op, OpError, Signature, Tensor, TensorType, Update};
use mesh_core::lower::LocalCx;
use mesh_core::names::DType;
use mesh_core::split::{Linearity, SplitRule};

/// What weights count as at least in adaptive clipping, as in its paper.
const SMALLEST_NORM: f64 = 1e-3;

/// Trains every trainable variable of the graph as `config` says.
///
/// Returns the learning rate at the graph's step (a replicated scalar called `learning_rate`), the
/// updates for the training function's list, and the gradients as they were applied.
///
/// If `gradients` is `None`, the gradients of `loss` are computed; otherwise those given are used
/// (of microbatches, for example). They become f32, are clipped by their global norm if
/// `gradient_clipping` is set, and are applied. Which collectives that takes follows from the
/// layout.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{OptimizerConfig, get_optimizer};
///
/// let config = OptimizerConfig::from_toml("opt_name = 'adam'\nlr = 1e-3\ngradient_clipping = 1.0")?;
/// let g = mesh_ops::graph();
/// let input = g.input("input", [dim("batch", 4), dim("x", 8)], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// let (rate, updates, _) = get_optimizer(&g, loss, &config, None);
/// let step = g.function("train", [input], [loss, rate], updates);
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn get_optimizer<'g>(
    graph: &'g Graph,
    loss: Tensor<'g>,
    config: &OptimizerConfig,
    gradients: Option<Vec<Pair<'g>>>,
) -> (Tensor<'g>, Vec<Update<'g>>, Vec<Pair<'g>>) {
    let optimizer = config.optimizer();
    let learning_rate = graph.on_behalf("learning rate", || {
        graph.apply1(Called("learning_rate"), &[config.learning_rate().at(graph, DType::F32)])
    });
    let mut gradients = gradients.unwrap_or_else(|| optimizer.compute_gradients(loss));
    if let Some(clipping) = config.adaptive_clipping() {
        gradients = adaptive_clip(&gradients, clipping, SMALLEST_NORM, &Units::ByRank);
    }
    gradients = match config.gradient_clipping() {
        Some(norm) => clip_by_global_norm(&gradients, norm).0,
        None => full_precision(&gradients),
    };
    (learning_rate, optimizer.apply_grads(&gradients), gradients)
}

/// Gives its input a name and nothing else.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Called(&'static str);

impl Op for Called {
    fn name(&self) -> &'static str {
        self.0
    }
    fn outputs(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>, OpError> {
        Ok(inputs.to_vec())
    }
    fn split(&self, _: Signature<'_>) -> SplitRule {
        SplitRule::parallel().linear(Linearity::Moves, &[&[0]])
    }
    fn local(&self, cx: &mut LocalCx<'_, '_>) -> Result<(), OpError> {
        cx.forward(0)
    }
    fn gradient<'g>(&self, cx: &GradCx<'g>) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        Ok(vec![Some(cx.dy())])
    }
}
