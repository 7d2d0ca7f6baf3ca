//! Gradients of the user's own.

use super::apply::Asked;
use super::data::{GradCx, Graph, Structural, Tensor};
use super::nodes::Same;
use std::sync::Arc;

impl Graph {
    /// What `forward` computes from `inputs`, with a gradient of the user's own.
    ///
    /// `gradient` sees the inputs, the results and the results' cotangents, and returns one
    /// cotangent (or `None`) for each input. What `forward` uses besides `inputs` counts as
    /// constant. The function must not capture tensors: it is called with those of the pass that is
    /// made.
    ///
    /// ```
    /// # use mesh_core::{graph::Graph, names::{dim, DType}};
    /// # fn doc(g: &Graph) {
    /// let x = g.input("x", [dim("x", 3)], DType::F32);
    /// let [y] = g.custom_gradient([x], |[x]| [x * x], |cx| vec![Some(cx.dy() * 0.5)]);
    /// # let _ = y;
    /// # }
    /// ```
    #[track_caller]
    pub fn custom_gradient<'g, const I: usize, const O: usize>(
        &'g self,
        inputs: [Tensor<'g>; I],
        forward: impl FnOnce([Tensor<'g>; I]) -> [Tensor<'g>; O],
        gradient: impl for<'a> Fn(&GradCx<'a>) -> Vec<Option<Tensor<'a>>> + Send + Sync + 'static,
    ) -> [Tensor<'g>; O] {
        let results = forward(inputs);
        let op = Structural::Custom { results: O, gradient: Same(Arc::new(gradient)) };
        self.with_results(op, results, &inputs)
    }

    /// Applies an op whose outputs are its first inputs.
    #[track_caller]
    pub(super) fn with_results<'g, const O: usize>(
        &'g self,
        op: Structural,
        results: [Tensor<'g>; O],
        arguments: &[Tensor<'g>],
    ) -> [Tensor<'g>; O] {
        let keys = results.iter().map(|t| t.key()).collect();
        let all: Vec<_> = results.iter().chain(arguments).copied().collect();
        let outputs = self.apply_as(op, &all, O, Asked::keys(keys)).outputs;
        std::array::from_fn(|i| outputs[i])
    }
}

impl<'g> Tensor<'g> {
    /// The same tensor, known only once `others` have been computed as well.
    ///
    /// Results never depend on the order in which a program computes; memory and what a
    /// [`probe`](Self::probe) shows may.
    #[track_caller]
    pub fn depend(self, others: &[Tensor<'g>]) -> Self {
        let all: Vec<_> = std::iter::once(&self).chain(others).copied().collect();
        let keys = all.iter().map(|t| t.key()).collect();
        let asked = Asked::keys(keys);
        self.graph().apply_as(Structural::Barrier, &all, all.len(), asked).outputs[0]
    }

    /// The same tensor; after each call of a function that needs it, its global value is shown to
    /// the session's watcher (by default it is written to standard error).
    #[track_caller]
    pub fn probe(self, label: &str) -> Self {
        if !self.graph().data().open.is_empty() {
            let message = "a probe cannot stand in a loop's body; return the tensor from the body \
                           and probe what the loop returns";
            self.graph().record("probe", message);
            return self;
        }
        let op = Structural::Probe { label: label.to_owned() };
        self.graph().apply_as(op, &[self], 1, Asked::key(self.key())).outputs[0]
    }
}
