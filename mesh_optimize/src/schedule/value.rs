//! The type of schedules: a number or a function of the step.

use mesh_core::graph::{Graph, Operand, Tensor};
use mesh_core::names::DType;
use mesh_ops::elementwise::cast;
use std::fmt;
use std::sync::Arc;

/// A number of an optimizer, the same in every step or a function of the step: a learning rate, a decay of moments or
/// of weights, a momentum, an epsilon.
///
/// It stands beside tensors as a number does: `x * &schedule` has the dtype of `x`.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Schedule, Optimizer, Sgd};
///
/// let g = mesh_ops::graph();
/// let (batch, x) = (dim("batch", 4), dim("x", 8));
/// let input = g.input("input", [batch, x], F32);
/// let loss = input.dense(dim("y", 3), "out").square().mean();
/// // 0.1 over the root of the step, counted from 1.
/// let falling = Schedule::of_step(|step| (step + 1.0).powf(-0.5) * 0.1);
/// g.function("train", [input], [loss], Sgd::new(falling).minimize(loss));
/// g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Schedule(Kind);

#[derive(Clone)]
enum Kind {
    Constant(f64),
    OfStep(Arc<OfStep>),
    /// What was refused, and why: an error of the graph in which the rate is used.
    Refused(&'static str, Arc<str>),
}

/// From the step to the rate; both are f64 scalars.
type OfStep = dyn for<'g> Fn(Tensor<'g>) -> Tensor<'g> + Send + Sync;

impl Schedule {
    /// `rate` computes the learning rate from the graph's step. Both are f64 scalars; the step is 0
    /// in the first call that trains. See [`Schedule`] for an example.
    pub fn of_step(
        rate: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g> + Send + Sync + 'static,
    ) -> Self {
        Self(Kind::OfStep(Arc::new(rate)))
    }

    /// The rate that `what` would be; using it is an error.
    pub(crate) fn refused(what: &'static str, problem: impl Into<Arc<str>>) -> Self {
        Self(Kind::Refused(what, problem.into()))
    }

    /// The number, if it is the same in every step; it need not be legal.
    ///
    /// ```
    /// use mesh_optimize::{AdamW, schedule};
    ///
    /// let adamw = AdamW { beta1: schedule::linear_decay(0.9, 0.95, 300), ..AdamW::new(1e-3) };
    /// assert_eq!((adamw.beta1.constant(), adamw.beta2.constant()), (None, Some(0.999)));
    /// ```
    pub fn constant(&self) -> Option<f64> {
        match self.0 {
            Kind::Constant(rate) => Some(rate),
            _ => None,
        }
    }

    fn legal(&self) -> Option<f64> {
        self.constant().filter(|number| problem("rate", *number).is_none())
    }

    /// The learning rate at the graph's step, computed in f64 and rounded once to `dtype`.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// let rate = mesh_optimize::schedule::linear_decay(0.5, 0.0, 100).at(&g, F32);
    /// # let f = g.function("rate", [], [rate], []);
    /// # let module = g.lower(&Mesh::single(), &Layout::default())?;
    /// # let [rate] = Session::threads(&module, 0)?.call(&f, [])?;
    /// assert_eq!(rate.item(), Some(0.5)); // at step 0
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn at<'g>(&self, graph: &'g Graph, dtype: DType) -> Tensor<'g> {
        match &self.0 {
            Kind::Constant(rate) if self.legal().is_some() => graph.scalar(*rate, dtype),
            Kind::OfStep(_) => graph.on_behalf("learning rate", || {
                cast(self.at_step(cast(graph.step(), DType::F64)), dtype)
            }),
            Kind::Constant(_) | Kind::Refused(..) => {
                graph.on_behalf("learning rate", || self.at_step(graph.scalar(0.0, dtype)))
            }
        }
    }

    /// Whether it is this number in every step.
    pub(crate) fn is(&self, number: f64) -> bool {
        self.constant() == Some(number)
    }

    /// A tensor times what is left of one; the difference is rounded once to the tensor's dtype.
    pub(crate) fn rest_times<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        match self.legal() {
            Some(number) => x * (1.0 - number),
            None => x * cast(1.0 - self.at(x.graph(), DType::F64), x.dtype()),
        }
    }

    /// This part of something old and the rest of something new.
    pub(crate) fn mixed<'g>(&self, old: Tensor<'g>, new: Tensor<'g>) -> Tensor<'g> {
        old * self + self.rest_times(new)
    }

    /// The learning rate at a given step. Both are f64 scalars.
    ///
    /// ```
    /// # use mesh_ops::prelude::*;
    /// # let g = mesh_ops::graph();
    /// let rate = mesh_optimize::Schedule::from(0.1).at_step(g.scalar(7.0, F64));
    /// # let f = g.function("rate", [], [rate], []);
    /// # let module = g.lower(&Mesh::single(), &Layout::default())?;
    /// # let [rate] = Session::threads(&module, 0)?.call(&f, [])?;
    /// assert!((rate.to_f64().sum() - 0.1).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn at_step<'g>(&self, step: Tensor<'g>) -> Tensor<'g> {
        let _caller = step.graph().for_caller();
        match &self.0 {
            Kind::Constant(rate) => match problem("rate", *rate) {
                None => step.graph().scalar(*rate, step.dtype()),
                Some(problem) => Self::refused("learning rate", problem).at_step(step),
            },
            Kind::OfStep(rate) => rate(step),
            Kind::Refused(what, problem) => {
                step.graph().record(what, &**problem);
                step.poisoned()
            }
        }
    }
}

/// What a function of the step gives is rounded once to the dtype of the tensor that it stands beside.
impl<'g> Operand<'g> for &Schedule {
    #[track_caller]
    fn beside(self, other: Tensor<'g>) -> Tensor<'g> {
        self.at(other.graph(), other.dtype())
    }

    fn number(self) -> Option<f64> {
        self.legal()
    }
}

/// A constant rate. One that is negative or not finite is an error of the graph in which it is used.
impl From<f64> for Schedule {
    fn from(rate: f64) -> Self {
        Self(Kind::Constant(rate))
    }
}

impl From<&Schedule> for Schedule {
    fn from(rate: &Schedule) -> Self {
        rate.clone()
    }
}

/// What is wrong with a number that is to be a rate, if something is.
pub(crate) fn problem(what: &str, rate: f64) -> Option<String> {
    let legal = rate >= 0.0 && rate.is_finite();
    (!legal).then(|| format!("{what} {rate}: legal are finite numbers from 0 on"))
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Constant(rate) => write!(f, "{rate:?}"),
            Kind::OfStep(_) => write!(f, "Schedule(of the step)"),
            Kind::Refused(what, problem) => write!(f, "Schedule(refused: {what}: {problem})"),
        }
    }
}
