//! Adafactor (Shazeer & Stern 2018, arXiv 1804.04235, algorithms 4 and 5), with the options of both
//! Mesh TensorFlow and tensor2tensor.
//!
//! t counts steps from 0. The second moment of a matrix is kept as its means over each of two dims:
//!
//! ```text
//! s  = g² + eps1                       b = 1 - (t+1)^-0.8                       (`Decay`)
//! vr <- b vr + (1-b) mean_d0(s)        vc <- b vc + (1-b) mean_d1(s)            (`Factoring`)
//! u  = g / sqrt(vr / mean_d1(vr)) / sqrt(vc)         (not factored: u = g / sqrt(v))
//! u  = u / max(1, rms(u) / clip)
//! d  = lr max(rms(w), eps2) u                        lr = min((t+1)^-½, 0.01)
//! d  = m <- beta1 m + (1-beta1) d                    (momentum, of the scaled update)
//! w <- w - d                                         (rounded as `rounding` says)
//! ```
//!
//! Of a *stacked* dim every element is as a variable of its own: such a dim is never factored, and
//! scale and clipping are found for each element. (Mesh TensorFlow clips by the root mean square
//! over the whole stack, against its own documentation.)
//!
//! tensor2tensor adds 1e-30 times the mean square of the gradient to decay and rate, to keep XLA
//! from fusing updates of different variables. It is far below rounding and is left out.

mod decay;
mod factoring;
mod ranges;
mod rounding;

pub use decay::Decay;
pub use factoring::Factoring;
pub use rounding::step_noise;

use crate::{LearningRate, Optimizer, pattern};
use mesh_core::graph::{Graph, Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Dimension, Shape};
use mesh_ops::elementwise::{cast, maximum, minimum, powf, rsqrt, sqrt, square};
use mesh_ops::reduce::mean;

const ROWS: &str = "adafactor_vr";
const COLS: &str = "adafactor_vc";
const SECOND: &str = "adafactor_v";
const FIRST: &str = "adafactor_m";

/// Adafactor.
#[derive(Clone, Debug)]
pub struct Adafactor {
    /// Whether the step is relative to the size of the variable.
    pub multiply_by_parameter_scale: bool,
    /// Step size; by default `min((t+1)^-½, 0.01)`, times 0.05 without parameter scale.
    pub learning_rate: Option<LearningRate>,
    /// Decay of the second moment.
    pub decay: Decay,
    /// Decay of the momentum of scaled updates, from 0 to 1; 0 keeps none.
    pub beta1: f64,
    /// Largest root mean square of an update before scaling, at least 1; `None` does not clip.
    pub clipping_threshold: Option<f64>,
    /// Which variables keep means of their second moment only.
    pub factoring: Factoring,
    /// Added to squared gradients.
    pub epsilon1: f64,
    /// Least parameter scale.
    pub epsilon2: f64,
    /// Dims along which variables of equal shape are stacked.
    pub stacked_dims: Vec<String>,
    /// Regular expressions: variables in whose name one is found take steps of the learning rate,
    /// whatever their size.
    pub exclude_from_parameter_scale: Vec<String>,
    /// Whether the momentum is stored in the variable's dtype, not the gradient's.
    pub momentum_in_variable_dtype: bool,
    /// Rounds variables of two dims and more to so many bits, 2 to 22, with a scale for each row.
    pub quantize_bits: Option<u32>,
}

impl Default for Adafactor {
    /// Mesh TensorFlow's.
    fn default() -> Self {
        Self {
            multiply_by_parameter_scale: true,
            learning_rate: None,
            decay: Decay::Pow { exponent: 0.8, offset: 0 },
            beta1: 0.0,
            clipping_threshold: Some(1.0),
            factoring: Factoring::TwoLargest { least: 128 },
            epsilon1: 1e-30,
            epsilon2: 1e-3,
            stacked_dims: Vec::new(),
            exclude_from_parameter_scale: Vec::new(),
            momentum_in_variable_dtype: false,
            quantize_bits: None,
        }
    }
}

impl Adafactor {
    /// tensor2tensor's, of 2018: every matrix is factored, and nothing else, and the momentum has the
    /// variable's dtype.
    pub fn tensor2tensor() -> Self {
        Self { factoring: Factoring::Matrices, momentum_in_variable_dtype: true, ..Self::default() }
    }

    /// Another step size.
    pub fn learning_rate(mut self, learning_rate: impl Into<LearningRate>) -> Self {
        self.learning_rate = Some(learning_rate.into());
        self
    }

    /// The dims that are not stacked.
    fn own_dims(&self, shape: &Shape) -> Vec<Dimension> {
        let stacked = |dim: &Dimension| self.stacked_dims.iter().any(|s| s == dim.name.as_str());
        shape.iter().filter(|dim| !stacked(dim)).collect()
    }

    /// The root mean square over the dims that are not stacked.
    fn rms<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        sqrt(mean(square(x), self.own_dims(&x.shape())))
    }

    /// The gradient over the root of the second moment, and what keeps that.
    fn normalized<'g>(
        &self,
        grad: Tensor<'g>,
        variable: Variable<'g>,
    ) -> (Tensor<'g>, Vec<Update<'g>>) {
        let (dtype, shape) = (grad.dtype(), variable.shape());
        let decay = self.decay.at(grad.graph(), dtype);
        let slot =
            |name: &str, shape: &Shape| variable.slot(name, shape, dtype, Initializer::ZEROS);
        let squares = square(grad) + self.epsilon1;
        match self.factoring.dims(&self.own_dims(&shape)) {
            Some([d0, d1]) => {
                let rows = slot(ROWS, &shape.without(&[d0.name]));
                let cols = slot(COLS, &shape.without(&[d1.name]));
                let (vr, keep_vr) = moving(rows, decay, mean(squares, [d0]));
                let (vc, keep_vc) = moving(cols, decay, mean(squares, [d1]));
                (grad * rsqrt(vr / mean(vr, [d1])) * rsqrt(vc), vec![keep_vr, keep_vc])
            }
            None => {
                let (v, keep_v) = moving(slot(SECOND, &shape), decay, squares);
                (grad * rsqrt(v), vec![keep_v])
            }
        }
    }

    /// The step size if none is given: `min((t+1)^-½, 0.01)`, times 0.05 without parameter scale.
    pub fn relative_rate(&self) -> LearningRate {
        let factor = if self.multiply_by_parameter_scale { 1.0 } else { 0.05 };
        LearningRate::of_step(move |step| {
            let most = step.graph().scalar(0.01, DType::F64);
            minimum(powf(step + 1.0, -0.5), most) * factor
        })
    }

    /// The step size at the graph's step; in f64 and rounded once.
    fn rate<'g>(&self, graph: &'g Graph, dtype: DType) -> Tensor<'g> {
        match &self.learning_rate {
            Some(rate) => rate.at(graph, dtype),
            None => self.relative_rate().at(graph, dtype),
        }
    }

    /// What an update is multiplied by.
    fn scale<'g>(&self, value: Tensor<'g>, name: &str) -> Tensor<'g> {
        let (graph, dtype) = (value.graph(), value.dtype());
        let rate = self.rate(graph, dtype);
        let option = "exclude_from_parameter_scale";
        let excluded = pattern::found(graph, option, &self.exclude_from_parameter_scale, name);
        if self.multiply_by_parameter_scale && !excluded {
            rate * maximum(self.rms(value), graph.scalar(self.epsilon2, dtype))
        } else {
            rate
        }
    }

    /// The moving average of scaled updates, and what keeps it.
    fn slowed<'g>(&self, delta: Tensor<'g>, variable: Variable<'g>) -> (Tensor<'g>, Update<'g>) {
        let wide = delta.dtype();
        let dtype = if self.momentum_in_variable_dtype { variable.dtype() } else { wide };
        let slot = variable.slot(FIRST, variable.shape(), dtype, Initializer::ZEROS);
        let average = cast(slot.stored(), wide) * self.beta1 + delta * (1.0 - self.beta1);
        (average, slot.assign(cast(average, dtype)))
    }
}

/// `decay * old + (1 - decay) * new`, and what keeps it.
fn moving<'g>(slot: Variable<'g>, decay: Tensor<'g>, new: Tensor<'g>) -> (Tensor<'g>, Update<'g>) {
    let average = slot.stored() * decay + new * (1.0 - decay);
    (average, slot.assign(average))
}

impl Optimizer for Adafactor {
    fn apply_grad<'g>(&self, grad: Tensor<'g>, variable: Variable<'g>) -> Vec<Update<'g>> {
        let (graph, dtype) = (grad.graph(), grad.dtype());
        if !self.in_range(graph) {
            return Vec::new();
        }
        let (mut update, mut updates) = self.normalized(grad, variable);
        if let Some(threshold) = self.clipping_threshold {
            let excess = self.rms(update) * (1.0 / threshold);
            update = update / maximum(graph.scalar(1.0, dtype), excess);
        }
        let value = cast(variable.value_for_update(), dtype);
        let mut delta = update * self.scale(value, &variable.name());
        if self.beta1 > 0.0 {
            let (average, keep) = self.slowed(delta, variable);
            updates.push(keep);
            delta = average;
        }
        updates.push(rounding::subtract(variable, value, delta, self.quantize_bits));
        updates
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let momentum = (self.beta1 > 0.0).then_some(FIRST);
        let factors: &[_] =
            if self.factoring == Factoring::Never { &[SECOND] } else { &[ROWS, COLS, SECOND] };
        factors.iter().copied().chain(momentum).collect()
    }
}
