//! Adafactor (Shazeer & Stern 2018, arXiv 1804.04235, algorithms 4 and 5) with all options of Mesh
//! TensorFlow and of tensor2tensor.
//!
//! t counts steps from 0. Of a matrix's second moment only the means over each of its two dims are
//! kept:
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
//! Along a *stacked* dim several variables of equal shape lie in one. Such a dim is never factored,
//! and scale and clipping are computed for each of its elements. (Mesh TensorFlow clips by the root
//! mean square over the whole stack, against its own documentation.)
//!
//! tensor2tensor adds 1e-30 times the mean square of the gradient to decay and rate, so that XLA
//! does not fuse the updates of several variables. That term is far below rounding and is left out
//! here.

mod config;
mod decay;
mod factoring;
mod ranges;
mod rounding;

pub use decay::Decay;
pub use factoring::Factoring;
pub use rounding::step_noise;

use crate::{Optimizer, Schedule, pattern};
use mesh_core::graph::{Graph, Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Dimension, Shape};
use mesh_ops::elementwise::{cast, maximum, minimum, powf, rsqrt, sqrt, square};
use mesh_ops::reduce::mean;

const ROWS: &str = "adafactor_vr";
const COLS: &str = "adafactor_vc";
const SECOND: &str = "adafactor_v";
const FIRST: &str = "adafactor_m";

/// The Adafactor optimizer. [`Adafactor::default`] has Mesh TensorFlow's options.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// # let loss = x.dense(dim("out", 3), "out").square().mean();
/// use mesh_optimize::{Adafactor, Optimizer};
///
/// let updates = Adafactor::default().minimize(loss);
/// g.function("train", [x], [loss], updates);
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adafactor {
    /// Whether a step is multiplied by the root mean square of the variable.
    pub multiply_by_parameter_scale: bool,
    /// The learning rate. If `None`, it is `min((t+1)^-½, 0.01)`, times 0.05 without parameter
    /// scale.
    pub learning_rate: Option<Schedule>,
    /// The decay of the second moment.
    pub decay: Decay,
    /// The decay of the momentum of scaled updates, from 0 to 1. With 0 no momentum is kept.
    pub beta1: Schedule,
    /// The largest root mean square of an update before scaling, at least 1. `None` does not clip.
    pub clipping_threshold: Option<Schedule>,
    /// Which variables keep only means of their second moment.
    pub factoring: Factoring,
    /// A small number that is added to squared gradients.
    pub epsilon1: Schedule,
    /// The least parameter scale.
    pub epsilon2: Schedule,
    /// The names of dims along which variables of equal shape are stacked.
    pub stacked_dims: Vec<String>,
    /// Regular expressions. A variable in whose name one of them matches takes steps that are not
    /// multiplied by its root mean square.
    pub exclude_from_parameter_scale: Vec<String>,
    /// Whether the momentum is stored in the variable's dtype. Otherwise it has the gradient's.
    pub momentum_in_variable_dtype: bool,
    /// If given, variables of at least two dims are stored with so many bits, 2 to 22, and one
    /// scale for each row.
    pub quantize_bits: Option<u32>,
}

impl Default for Adafactor {
    /// Mesh TensorFlow's options.
    fn default() -> Self {
        Self {
            multiply_by_parameter_scale: true,
            learning_rate: None,
            decay: Decay::Pow { exponent: 0.8, offset: 0 },
            beta1: 0.0.into(),
            clipping_threshold: Some(1.0.into()),
            factoring: Factoring::TwoLargest { least: 128 },
            epsilon1: 1e-30.into(),
            epsilon2: 1e-3.into(),
            stacked_dims: Vec::new(),
            exclude_from_parameter_scale: Vec::new(),
            momentum_in_variable_dtype: false,
            quantize_bits: None,
        }
    }
}

impl Adafactor {
    /// The options of tensor2tensor in 2018: matrices are factored and nothing else is, and the
    /// momentum has the variable's dtype.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{Adafactor, Factoring, Optimizer};
    ///
    /// let optimizer = Adafactor::tensor2tensor();
    /// assert_eq!(optimizer.factoring, Factoring::Matrices);
    /// g.function("train", [x], [loss], optimizer.minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor2tensor() -> Self {
        Self { factoring: Factoring::Matrices, momentum_in_variable_dtype: true, ..Self::default() }
    }

    /// Sets the learning rate.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// # let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
    /// # let loss = x.dense(dim("out", 3), "out").square().mean();
    /// use mesh_optimize::{Adafactor, Optimizer, schedule};
    ///
    /// let rate = schedule::with_warmup(1e-2, 100);
    /// g.function("train", [x], [loss], Adafactor::default().learning_rate(rate).minimize(loss));
    /// # g.check()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn learning_rate(mut self, learning_rate: impl Into<Schedule>) -> Self {
        self.learning_rate = Some(learning_rate.into());
        self
    }

    /// The dims of `shape` that are not stacked.
    fn own_dims(&self, shape: &Shape) -> Vec<Dimension> {
        let stacked = |dim: &Dimension| self.stacked_dims.iter().any(|s| s == dim.name.as_str());
        shape.iter().filter(|dim| !stacked(dim)).collect()
    }

    /// The root mean square of `x` over the dims that are not stacked.
    fn rms<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        sqrt(mean(square(x), self.own_dims(&x.shape())))
    }

    /// The gradient divided by the root of the second moment, and the updates of the slots that
    /// hold that moment.
    fn normalized<'g>(
        &self,
        grad: Tensor<'g>,
        variable: Variable<'g>,
    ) -> (Tensor<'g>, Vec<Update<'g>>) {
        let (dtype, shape) = (grad.dtype(), variable.shape());
        let decay = self.decay.at(grad.graph(), dtype);
        let slot =
            |name: &str, shape: &Shape| variable.slot(name, shape, dtype, Initializer::ZEROS);
        let squares = square(grad) + &self.epsilon1;
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

    /// The learning rate that is used if none is given: `min((t+1)^-½, 0.01)`, times 0.05 without
    /// parameter scale.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// use mesh_optimize::Adafactor;
    ///
    /// let rate = Adafactor::default().relative_rate().at_step(g.scalar(39_999.0, F64));
    /// # let f = g.function("rate", [], [rate], []);
    /// # let module = g.lower(&Mesh::single(), &Layout::default())?;
    /// # let [rate] = Session::threads(&module, 0)?.call(&f, [])?;
    /// assert!((rate.to_f64().sum() - 1.0 / 200.0).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn relative_rate(&self) -> Schedule {
        let factor = if self.multiply_by_parameter_scale { 1.0 } else { 0.05 };
        Schedule::of_step(move |step| {
            let most = step.graph().scalar(0.01, DType::F64);
            minimum(powf(step + 1.0, -0.5), most) * factor
        })
    }

    /// The learning rate at the graph's step, computed in f64 and rounded once.
    fn rate<'g>(&self, graph: &'g Graph, dtype: DType) -> Tensor<'g> {
        match &self.learning_rate {
            Some(rate) => rate.at(graph, dtype),
            None => self.relative_rate().at(graph, dtype),
        }
    }

    /// The factor that an update is multiplied by before the learning rate.
    fn scale<'g>(&self, value: Tensor<'g>, name: &str) -> Tensor<'g> {
        let (graph, dtype) = (value.graph(), value.dtype());
        let rate = self.rate(graph, dtype);
        let option = "exclude_from_parameter_scale";
        let excluded = pattern::found(graph, option, &self.exclude_from_parameter_scale, name);
        if self.multiply_by_parameter_scale && !excluded {
            rate * maximum(self.rms(value), &self.epsilon2)
        } else {
            rate
        }
    }

    /// The moving average of scaled updates, and the update of the slot that holds it.
    fn slowed<'g>(&self, delta: Tensor<'g>, variable: Variable<'g>) -> (Tensor<'g>, Update<'g>) {
        let wide = delta.dtype();
        let dtype = if self.momentum_in_variable_dtype { variable.dtype() } else { wide };
        let slot = variable.slot(FIRST, variable.shape(), dtype, Initializer::ZEROS);
        let average = self.beta1.mixed(cast(slot.stored(), wide), delta);
        (average, slot.assign(cast(average, dtype)))
    }
}

/// `decay * old + (1 - decay) * new`, and the update of the slot that holds it.
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
        if let Some(threshold) = &self.clipping_threshold {
            update = update / maximum(self.rms(update) / threshold, 1.0);
        }
        let value = cast(variable.value_for_update(), dtype);
        let mut delta = update * self.scale(value, &variable.name());
        if !self.beta1.is(0.0) {
            let (average, keep) = self.slowed(delta, variable);
            updates.push(keep);
            delta = average;
        }
        updates.push(rounding::subtract(variable, value, delta, self.quantize_bits));
        updates
    }

    fn slot_names(&self) -> Vec<&'static str> {
        let momentum = (!self.beta1.is(0.0)).then_some(FIRST);
        let factors: &[_] =
            if self.factoring == Factoring::Never { &[SECOND] } else { &[ROWS, COLS, SECOND] };
        factors.iter().copied().chain(momentum).collect()
    }
}
