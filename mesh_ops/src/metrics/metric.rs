//! A metric as sums and a formula, and its variables over a data set.

use crate::room::*;
use mesh_core::graph::{Graph, Initializer, Update};
use std::fmt;
use std::rc::Rc;

type Formula = dyn for<'g> Fn(&[Tensor<'g>]) -> Tensor<'g>;

/// Sums over examples, and a formula of them.
///
/// ```
/// # use mesh_ops::prelude::*;
/// use mesh_ops::metrics::{Metric, accuracy};
/// # let g = mesh_ops::graph();
/// let (batch, classes) = (dim("batch", 4), dim("classes", 10));
/// let logits = g.input("logits", [batch, classes], F32);
/// let label = g.input("label", [batch], I32);
///
/// // Of one batch.
/// let right = accuracy(logits, label, classes, None);
/// g.function("batch", [logits, label], [right.value()], []);
///
/// // Of all batches: add each one, look, begin again.
/// let streaming = right.streaming(&g, "accuracy");
/// g.function("add", [logits, label], [], streaming.updates.clone());
/// g.function("look", [], [streaming.value], []);
/// g.function("begin", [], [], streaming.reset.clone());
///
/// // One of your own: how large logits are.
/// let sums = [("squares", logits.square().sum_all()), ("count", g.scalar(40.0, F32))];
/// let size = Metric::new(sums, |sums| (sums[0] / sums[1]).sqrt());
/// assert!(size.value().shape().is_scalar());
/// # g.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Metric<'g> {
    sums: Vec<(&'static str, Tensor<'g>)>,
    formula: Rc<Formula>,
}

impl fmt::Debug for Metric<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metric").field("sums", &self.sums).finish_non_exhaustive()
    }
}

/// A metric over several calls. See [`Metric::streaming`].
#[derive(Clone, Debug)]
pub struct Streaming<'g> {
    /// They add a batch's sums to the variables.
    pub updates: Vec<Update<'g>>,
    /// The metric of the variables, and in a function that also has the updates of what was there before them.
    pub value: Tensor<'g>,
    /// They set the variables to 0.
    pub reset: Vec<Update<'g>>,
}

impl<'g> Metric<'g> {
    /// A metric of these sums, which add up over batches, in the order in which the formula gets them. The names
    /// are those of variables.
    pub fn new(
        sums: impl IntoIterator<Item = (&'static str, Tensor<'g>)>,
        formula: impl for<'a> Fn(&[Tensor<'a>]) -> Tensor<'a> + 'static,
    ) -> Self {
        Self { sums: sums.into_iter().collect(), formula: Rc::new(formula) }
    }

    /// The metric of this batch alone.
    #[track_caller]
    pub fn value(&self) -> Tensor<'g> {
        let sums: Vec<_> = self.sums.iter().map(|(_, sum)| *sum).collect();
        self.of(&sums)
    }

    /// Variables `{name}/{sum}` that hold sums over calls, 0 at first, what adds to them, and the metric of
    /// them. A sum over a split batch is settled once a call, for all processors.
    ///
    /// Sums are floats: f32 holds counts to 2^24 exactly, and larger ones to 7 digits.
    #[track_caller]
    pub fn streaming(&self, graph: &'g Graph, name: &str) -> Streaming<'g> {
        let _layer = graph.for_layer("streaming");
        let _caller = graph.for_caller();
        let _scope = graph.scope(name);
        let (mut updates, mut reset, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (sum, tensor) in &self.sums {
            let (dims, dtype) = (tensor.shape(), tensor.dtype());
            let variable = graph.state(sum, &dims, dtype, Initializer::ZEROS);
            updates.push(variable.assign_add(tensor.stop_gradient()));
            reset.push(variable.assign(graph.fill(0.0, &dims, dtype)));
            values.push(variable.value());
        }
        Streaming { updates, value: self.of(&values), reset }
    }

    #[track_caller]
    fn of(&self, sums: &[Tensor<'g>]) -> Tensor<'g> {
        // A closure would not know the caller.
        if let Some(sum) = sums.first() {
            let _caller = sum.graph().for_caller();
            return (self.formula)(sums);
        }
        (self.formula)(sums)
    }

    /// A metric of a refused input.
    pub(super) fn poisoned(poisoned: Tensor<'g>) -> Self {
        Self::new([("refused", poisoned)], |sums| sums[0])
    }
}
