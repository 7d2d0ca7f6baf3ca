//! Adafactor (Shazeer & Stern 2018, arXiv 1804.04235, algorithms 4 and 5) with Mesh TensorFlow's
//! defaults.
//!
//! The second moment of a matrix is kept as its row and column means:
//!
//! ```text
//! s  = g² + eps1                       b = 1 - (t+1)^-0.8
//! vr <- b vr + (1-b) mean_d0(s)        vc <- b vc + (1-b) mean_d1(s)
//! u  = g / sqrt(vr / mean_d1(vr)) / sqrt(vc)         (not factored: u = g / sqrt(v))
//! u  = u / max(1, rms(u) / clip)
//! w <- w - lr max(rms(w), eps2) u                    lr = min((t+1)^-½, 0.01)
//! ```

use crate::{LearningRate, Optimizer};
use mesh_core::graph::{Graph, Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Dimension, Shape};
use mesh_ops::elementwise::{cast, maximum, minimum, powf, rsqrt, sqrt, square};
use mesh_ops::reduce::mean;

/// Adafactor.
#[derive(Clone, Debug)]
pub struct Adafactor {
    /// Whether the step is relative to the size of the variable.
    pub multiply_by_parameter_scale: bool,
    /// Step size; by default `min((t+1)^-½, 0.01)`, times 0.05 without parameter scale.
    pub learning_rate: Option<LearningRate>,
    /// Decay of the momentum of scaled updates; 0 keeps none.
    pub beta1: f64,
    /// Largest root mean square of an update before scaling.
    pub clipping_threshold: Option<f64>,
    /// Whether large matrices keep row and column means only.
    pub factored: bool,
    /// Added to squared gradients.
    pub epsilon1: f64,
    /// Least parameter scale.
    pub epsilon2: f64,
    /// Least size of the second largest dim at which the second moment is factored.
    pub min_dim_size_to_factor: usize,
}

impl Default for Adafactor {
    fn default() -> Self {
        Self {
            multiply_by_parameter_scale: true,
            learning_rate: None,
            beta1: 0.0,
            clipping_threshold: Some(1.0),
            factored: true,
            epsilon1: 1e-30,
            epsilon2: 1e-3,
            min_dim_size_to_factor: 128,
        }
    }
}

impl Adafactor {
    /// Another step size.
    pub fn learning_rate(mut self, learning_rate: impl Into<LearningRate>) -> Self {
        self.learning_rate = Some(learning_rate.into());
        self
    }

    /// The two largest dims (the first of equals first), if the second moment is factored.
    fn factored_dims(&self, shape: &Shape) -> Option<[Dimension; 2]> {
        let mut dims: Vec<_> = shape.iter().collect();
        dims.sort_by_key(|dim| std::cmp::Reverse(dim.size));
        match dims[..] {
            [first, second, ..] if self.factored && second.size >= self.min_dim_size_to_factor => {
                Some([first, second])
            }
            _ => None,
        }
    }

    /// The step size at the graph's step, in f64 and rounded once.
    fn rate<'g>(&self, graph: &'g Graph, dtype: DType) -> Tensor<'g> {
        if let Some(rate) = &self.learning_rate {
            return rate.at(graph, dtype);
        }
        let steps = cast(graph.step(), DType::F64) + 1.0;
        let rate = minimum(powf(steps, -0.5), graph.scalar(0.01, DType::F64));
        let factor = if self.multiply_by_parameter_scale { 1.0 } else { 0.05 };
        cast(rate * factor, dtype)
    }
}

fn rms<'g>(x: Tensor<'g>) -> Tensor<'g> {
    sqrt(mean(square(x), x.shape()))
}

/// `decay * old + (1 - decay) * new`, and what keeps it.
fn moving<'g>(slot: Variable<'g>, decay: Tensor<'g>, new: Tensor<'g>) -> (Tensor<'g>, Update<'g>) {
    let average = slot.stored() * decay + new * (1.0 - decay);
    (average, slot.assign(average))
}

impl Optimizer for Adafactor {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let (graph, dtype, shape) = (grad.graph(), grad.dtype(), variable.shape());
        let steps = cast(graph.step(), DType::F64) + 1.0;
        let decay = cast(1.0 - powf(steps, -0.8), dtype);
        let slot =
            |name: &str, shape: &Shape| variable.slot(name, shape, dtype, Initializer::ZEROS);
        let squares = square(grad) + self.epsilon1;
        let mut updates = Vec::new();
        let mut update = match self.factored_dims(&shape) {
            Some([d0, d1]) => {
                let rows = slot("adafactor_vr", &shape.without(&[d0.name]));
                let cols = slot("adafactor_vc", &shape.without(&[d1.name]));
                let (vr, keep_vr) = moving(rows, decay, mean(squares, [d0]));
                let (vc, keep_vc) = moving(cols, decay, mean(squares, [d1]));
                updates.extend([keep_vr, keep_vc]);
                grad * rsqrt(vr / mean(vr, [d1])) * rsqrt(vc)
            }
            None => {
                let (v, keep_v) = moving(slot("adafactor_v", &shape), decay, squares);
                updates.push(keep_v);
                grad * rsqrt(v)
            }
        };
        if let Some(threshold) = self.clipping_threshold {
            update = update / maximum(graph.scalar(1.0, dtype), rms(update) * (1.0 / threshold));
        }
        let mut scale = self.rate(graph, dtype);
        if self.multiply_by_parameter_scale {
            let value = cast(variable.value_for_update(), dtype);
            scale = scale * maximum(rms(value), graph.scalar(self.epsilon2, dtype));
        }
        let mut delta = update * scale;
        if self.beta1 > 0.0 {
            let slot = slot("adafactor_m", &shape);
            let (momentum, keep) = moving(slot, graph.scalar(self.beta1, dtype), delta);
            updates.push(keep);
            delta = momentum;
        }
        updates.push(variable.assign_sub(cast(delta, variable.dtype())));
        updates
    }
}
