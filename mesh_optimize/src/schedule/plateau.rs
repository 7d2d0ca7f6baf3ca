//! A rate that falls when a metric stops improving.

use crate::Schedule;
use crate::training::Better;
use mesh_core::graph::{Graph, Initializer, Tensor, Update, Variable};
use mesh_core::names::{DType, Shape};
use mesh_ops::Ops;

/// Multiplies a rate by a factor each time that a metric has not improved for a while, as PyTorch's
/// `ReduceLROnPlateau` and `optax.contrib.reduce_on_plateau`.
///
/// [`rate`](Self::rate) is the schedule; [`observe`](Self::observe) gives the updates of its state for the
/// function that computes or is fed the metric: one that is called after each evaluation, or the training
/// function itself. The state is in variables of the graph, so checkpoints have it.
///
/// ```
/// use mesh_ops::prelude::*;
/// use mesh_optimize::{Optimizer, Sgd, schedule::ReduceOnPlateau};
///
/// let g = mesh_ops::graph();
/// let x = g.input("x", [dim("batch", 4), dim("width", 8)], F32);
/// let loss = x.dense(dim("out", 3), "out").square().mean();
/// let plateau = ReduceOnPlateau { patience: 1, ..ReduceOnPlateau::default() };
/// g.function("train", [x], [loss], Sgd::new(plateau.rate(0.1)).minimize(loss));
/// let metric = g.input("metric", [], F32);
/// let observe = g.function("observe", [metric], [], plateau.observe(metric));
///
/// let mut session = Session::threads(&g.lower(&Mesh::single(), &Layout::default())?, 0)?;
/// for held_out in [2.5f32, 2.5, 2.5] {
///     let [] = session.call(&observe, [ndarray::arr0(held_out).view().into()])?;
/// }
/// assert_eq!(session.read("plateau/scale")?.item(), Some(0.1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct ReduceOnPlateau {
    /// What the rate is multiplied by.
    pub factor: f64,
    /// How many observations in a row may be no better; one more reduces the rate. (optax counts that one
    /// as well: its patience is larger by 1.)
    pub patience: u64,
    /// The part of the best value by which a better one differs at least.
    pub relative: f64,
    /// What it differs by besides.
    pub absolute: f64,
    /// Which values are better.
    pub better: Better,
    /// How many observations after a reduction do not count.
    pub cooldown: u64,
    /// The least that the rate is multiplied by. (PyTorch's `min_lr` over the rate.)
    pub least: f64,
    /// Of how many calls the mean is one observation.
    pub calls: u64,
    /// The name of the state's variables; several of them need several names.
    pub name: String,
}

/// PyTorch's defaults: a tenth after more than 10 observations that are not lower by a 1e-4 of the best.
impl Default for ReduceOnPlateau {
    fn default() -> Self {
        Self {
            factor: 0.1,
            patience: 10,
            relative: 1e-4,
            absolute: 0.0,
            better: Better::Lower,
            cooldown: 0,
            least: 0.0,
            calls: 1,
            name: "plateau".to_owned(),
        }
    }
}

impl ReduceOnPlateau {
    /// `rate` times what is left after the reductions so far.
    pub fn rate(&self, rate: impl Into<Schedule>) -> Schedule {
        if let Some(problem) = self.problem() {
            return Schedule::refused("reduce_on_plateau", problem);
        }
        let (plateau, rate) = (self.clone(), rate.into());
        Schedule::of_step(move |t| {
            let scale = plateau.number(t.graph(), "scale", 1.0).value();
            rate.at_step(t) * scale.cast(t.dtype())
        })
    }

    /// The updates of the state by a value of the metric: a scalar of floats.
    ///
    /// They count from the next call on, as updates do. A value that is no number is no better one.
    #[track_caller]
    pub fn observe<'g>(&self, metric: Tensor<'g>) -> Vec<Update<'g>> {
        let graph = metric.graph();
        let shape = || {
            let legal =
                metric.is_poisoned() || metric.shape().is_scalar() && metric.dtype().is_float();
            (!legal).then(|| format!("{metric:?} is no scalar of floats"))
        };
        if let Some(problem) = self.problem().or_else(shape) {
            graph.record("reduce_on_plateau", problem);
            return Vec::new();
        }
        graph.on_behalf("reduce on plateau", || {
            let (sum, calls) = (self.number(graph, "sum", 0.0), self.count(graph, "calls"));
            let whole = |x: u64| graph.scalar(x as f64, DType::I32);
            let total = sum.stored() + metric.cast(DType::F64);
            let due = (calls.stored() + 1.0).equal(whole(self.calls));
            let mut updates = self.judge(graph, total / self.calls as f64, due);
            updates.push(sum.assign(due.select(0.0, total)));
            updates.push(calls.assign(due.select(whole(0), calls.stored() + 1.0)));
            updates
        })
    }

    /// What becomes of the state, if `due`, by one observation.
    #[track_caller]
    fn judge<'g>(&self, graph: &'g Graph, value: Tensor<'g>, due: Tensor<'g>) -> Vec<Update<'g>> {
        let (best, scale) = (self.number(graph, "best", 0.0), self.number(graph, "scale", 1.0));
        let [found, bad, cooling] = ["found", "bad", "cooling"].map(|name| self.count(graph, name));
        let whole = |x: u64| graph.scalar(x as f64, DType::I32);
        let improves = match self.better {
            Better::Lower => value.less(best.stored() * (1.0 - self.relative) - self.absolute),
            Better::Higher => value.greater(best.stored() * (1.0 + self.relative) + self.absolute),
        };
        let first = found.stored().equal(0.0).logical_and(value.equal(value));
        let improves = improves.logical_and(found.stored().greater(0.0)).logical_or(first);
        let cools = cooling.stored().greater(0.0);
        let in_a_row = improves.logical_or(cools).select(whole(0), bad.stored() + 1.0);
        let reduces = in_a_row.greater(whole(self.patience));
        let reduced = (scale.stored() * self.factor).maximum(self.least);
        let left = cooling.stored() - cools.select(whole(1), whole(0));
        let updates = [
            (best, improves.select(value, best.stored())),
            (found, improves.select(whole(1), found.stored())),
            (bad, reduces.select(whole(0), in_a_row)),
            (cooling, reduces.select(whole(self.cooldown), left)),
            (scale, reduces.select(reduced, scale.stored())),
        ];
        let if_due = |(variable, next): (Variable<'g>, Tensor<'g>)| {
            variable.assign(due.select(next, variable.stored()))
        };
        updates.into_iter().map(if_due).collect()
    }

    #[track_caller]
    fn number<'g>(&self, graph: &'g Graph, name: &str, start: f64) -> Variable<'g> {
        let name = format!("{}/{name}", self.name);
        graph.shared_state(&name, Shape::scalar(), DType::F64, Initializer::Constant(start))
    }

    #[track_caller]
    fn count<'g>(&self, graph: &'g Graph, name: &str) -> Variable<'g> {
        let name = format!("{}/{name}", self.name);
        graph.shared_state(&name, Shape::scalar(), DType::I32, Initializer::ZEROS)
    }

    fn problem(&self) -> Option<String> {
        let within = |what: &str, x: f64, legal: bool, range: &str| {
            (!legal).then(|| format!("{what} {x}: legal is {range}"))
        };
        let whole = |what: &str, x: u64, least: u64| {
            let legal = x >= least && i32::try_from(x).is_ok_and(|x| x < i32::MAX);
            (!legal).then(|| format!("{what} {x}: legal is a whole number from {least} on"))
        };
        let Self { factor, relative, absolute, least, .. } = *self;
        let below_1 = factor > 0.0 && factor < 1.0;
        let finite = absolute >= 0.0 && absolute.is_finite();
        within("factor", factor, below_1, "a number above 0 and below 1")
            .or_else(|| within("relative", relative, (0.0..=1.0).contains(&relative), "0 to 1"))
            .or_else(|| within("absolute", absolute, finite, "a finite number from 0 on"))
            .or_else(|| within("least", least, (0.0..=1.0).contains(&least), "0 to 1"))
            .or_else(|| whole("patience", self.patience, 0))
            .or_else(|| whole("cooldown", self.cooldown, 0))
            .or_else(|| whole("calls", self.calls, 1))
    }
}
