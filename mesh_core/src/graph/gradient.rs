//! The gradient driver: reverse accumulation over the graph, as graph operations.

use super::data::{GradCx, Graph, Tensor};
use super::ids::{OperationId, RegionId, TensorId};
use super::provenance::{Asker, Provenance};
use std::panic::Location;
use std::sync::Arc;

impl Graph {
    /// Gradients of the sum of `ys` (each weighted by its `grad_ys`, ones by default) with respect
    /// to `xs`, as graph operations; `None` for an `x` that no `y` depends on.
    ///
    /// Any tensors may stand in `xs`. An operation between them without a gradient is a recorded
    /// error that names it.
    #[track_caller]
    pub fn gradients<'g>(
        &'g self,
        ys: &[Tensor<'g>],
        xs: &[Tensor<'g>],
        grad_ys: Option<&[Tensor<'g>]>,
    ) -> Vec<Option<Tensor<'g>>> {
        if grad_ys.is_some_and(|seeds| seeds.len() != ys.len()) {
            self.record("gradients", "one grad_y is needed for each y");
            return vec![None; xs.len()];
        }
        if ys.iter().chain(xs).any(|t| !std::ptr::eq(t.graph(), self)) {
            self.record("gradients", "a tensor belongs to another graph");
            return vec![None; xs.len()];
        }
        let caller = self.provenance(Location::caller());
        let mut sweep = Sweep::new(self, caller);
        for (i, &y) in ys.iter().enumerate() {
            if let Err(error) = self.reach(y) {
                self.record("gradients", error.to_string());
                continue;
            }
            if !y.dtype().is_float() {
                self.record("gradients", format!("{y:?} is not of floats"));
                continue;
            }
            sweep.seed(y, grad_ys.map(|seeds| seeds[i]));
        }
        let here = self.data().enclosing();
        sweep.run(ys, xs, &here);
        xs.iter().map(|x| sweep.cotangents[x.id().index()]).collect()
    }
}

impl Graph {
    /// As [`gradients`](Self::gradients), by way of the operations of one region only.
    pub(super) fn gradients_within<'g>(
        &'g self,
        region: RegionId,
        ys: &[(Tensor<'g>, Tensor<'g>)],
        xs: &[Tensor<'g>],
    ) -> Vec<Option<Tensor<'g>>> {
        let mut sweep = Sweep::new(self, self.provenance(Location::caller()));
        ys.iter().for_each(|&(y, seed)| sweep.seed(y, Some(seed)));
        let ys: Vec<_> = ys.iter().map(|(y, _)| *y).collect();
        sweep.run(&ys, xs, &[region]);
        xs.iter().map(|x| sweep.cotangents[x.id().index()]).collect()
    }
}

struct Sweep<'g> {
    graph: &'g Graph,
    caller: Provenance,
    phase: u32,
    /// Sum of what has reached each tensor so far.
    cotangents: Vec<Option<Tensor<'g>>>,
}

impl<'g> Sweep<'g> {
    fn new(graph: &'g Graph, caller: Provenance) -> Self {
        let count = graph.data().tensors.len();
        Self { graph, caller, phase: graph.new_phase(), cotangents: vec![None; count] }
    }

    fn on_behalf<T>(&self, note: &str, asker: Option<&Arc<Asker>>, build: impl FnOnce() -> T) -> T {
        let (location, asker) = (self.caller.location, asker.cloned());
        let at = Provenance { location, note: Some(note.into()), asker };
        self.graph.within(at, self.phase, build)
    }

    fn seed(&mut self, y: Tensor<'g>, seed: Option<Tensor<'g>>) {
        let ones = || self.on_behalf("gradient's seed", None, || y.fill_like(1.0));
        let seed = seed.unwrap_or_else(ones);
        self.accumulate(y.id(), seed);
    }

    fn accumulate(&mut self, tensor: TensorId, dy: Tensor<'g>) {
        let slot = self.cotangents[tensor.index()];
        let sum = match slot {
            None => dy,
            Some(before) => self.on_behalf("sum of gradients", None, || before + dy),
        };
        self.cotangents[tensor.index()] = Some(sum);
    }

    /// Visits, last first, every operation of these regions on a path from `xs` to `ys`.
    fn run(&mut self, ys: &[Tensor<'g>], xs: &[Tensor<'g>], regions: &[RegionId]) {
        let ids = |tensors: &[Tensor<'g>]| tensors.iter().map(|t| t.id()).collect::<Vec<_>>();
        let met = self.graph.data().changing(regions, &ids(xs), &ids(ys));
        for (operation, needed) in met {
            self.visit(operation, needed);
        }
    }

    fn visit(&mut self, id: OperationId, needed: Vec<bool>) {
        let operation = self.graph.data().operations[id.index()].clone();
        let dy: Vec<_> = operation.outputs.iter().map(|t| self.cotangents[t.index()]).collect();
        if dy.iter().all(Option::is_none) || operation.inputs.is_empty() {
            return;
        }
        let tensor = |&t: &TensorId| Tensor::new(self.graph, t);
        let cx = GradCx {
            operation: id,
            needed,
            inputs: operation.inputs.iter().map(tensor).collect(),
            outputs: operation.outputs.iter().map(tensor).collect(),
            dy,
        };
        let (name, at) = (operation.name.clone(), operation.at.clone());
        let asker = Arc::new(Asker { name, at });
        let grads = self.on_behalf("gradient", Some(&asker), || operation.op.gradient(&cx));
        match grads {
            Ok(grads) => {
                for (input, grad) in operation.inputs.iter().zip(grads) {
                    if let Some(grad) = grad.filter(|_| self.is_float(*input)) {
                        let grad = self.in_order(&asker, *input, grad);
                        self.accumulate(*input, grad);
                    }
                }
            }
            Err(error) => {
                let at = operation.at.clone();
                self.graph.push_issue(&operation.name, error.to_string(), at);
            }
        }
    }

    fn is_float(&self, tensor: TensorId) -> bool {
        Tensor::new(self.graph, tensor).dtype().is_float()
    }

    /// The gradient with its dims in the order of its input's. A rule that returns another shape is
    /// a fault of the op.
    fn in_order(&self, asker: &Arc<Asker>, input: TensorId, grad: Tensor<'g>) -> Tensor<'g> {
        let want = Tensor::new(self.graph, input).tensor_type();
        let got = grad.tensor_type();
        if grad.is_poisoned() || want == got {
            return grad;
        }
        if want.dtype != got.dtype || !want.shape.is_permutation_of(&got.shape) {
            let message = format!("its gradient rule returns {got} for an input {want}");
            self.graph.push_issue(&asker.name, message, self.caller.clone());
            return self.graph.poison();
        }
        let note = "order of dims of the gradient";
        self.on_behalf(note, Some(asker), || self.graph.algebra().broadcast(grad, &want.shape))
    }
}
