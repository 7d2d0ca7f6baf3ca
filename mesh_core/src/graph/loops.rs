//! Loops: `scan`, which has a gradient, and `while_loop`.

use super::apply::Asked;
use super::data::{Graph, Structural, Tensor};
use super::ids::{Key, OperationId, RegionId};
use super::nodes::Loop;
use super::residual::stacked;
use super::types::TensorType;
use crate::names::{DType, Dimension, Shape, dim};

/// The most iterations of a while loop: positions are i32.
const MOST_ITERATIONS: usize = i32::MAX as usize;

impl Graph {
    /// Runs `body` once for each position along the dim `iterations`, in order; the body is compiled
    /// once.
    ///
    /// An iteration is given what is carried and, of each of `sliced` (which have the dim), the slice at
    /// its position; it returns what the next one carries, of the same types, and what is stacked
    /// along the dim. Results are what the last iteration carries, and the stacks.
    ///
    /// The gradient runs the iterations backwards; what it needs of the forward pass is stacked for it.
    /// The dim cannot be split. A sum over other split dims that iterations only add to what they
    /// carry is settled once, after the last.
    ///
    /// ```
    /// # use mesh_core::{graph::Graph, names::{dim, DType}};
    /// # fn doc(g: &Graph) {
    /// let (layers, d) = (dim("layers", 4), dim("d", 8));
    /// let (x, scale) = (g.input("x", [d], DType::F32), g.input("scale", [layers], DType::F32));
    /// let ([y], [all]) = g.scan(layers, [x], [scale], |[x], [scale]| ([x * scale], [x]));
    /// assert_eq!(y.shape().to_string(), "[d:8]");
    /// assert_eq!(all.shape().to_string(), "[layers:4, d:8]");
    /// # }
    /// ```
    #[track_caller]
    pub fn scan<'g, const C: usize, const X: usize, const Y: usize>(
        &'g self,
        iterations: Dimension,
        carried: [Tensor<'g>; C],
        sliced: [Tensor<'g>; X],
        body: impl FnOnce([Tensor<'g>; C], [Tensor<'g>; X]) -> ([Tensor<'g>; C], [Tensor<'g>; Y]),
    ) -> ([Tensor<'g>; C], [Tensor<'g>; Y]) {
        let (last, stacks) = self.scan_lists(iterations, &carried, &sliced, |carried, sliced| {
            let given = |list: &[Tensor<'g>], i: usize| list[i];
            let (next, pieces) = body(
                std::array::from_fn(|i| given(carried, i)),
                std::array::from_fn(|i| given(sliced, i)),
            );
            (next.to_vec(), pieces.to_vec())
        });
        (std::array::from_fn(|i| last[i]), std::array::from_fn(|i| stacks[i]))
    }

    /// As [`scan`](Self::scan), for numbers of tensors known only at run time.
    #[track_caller]
    pub fn scan_lists<'g>(
        &'g self,
        iterations: Dimension,
        carried: &[Tensor<'g>],
        sliced: &[Tensor<'g>],
        body: impl FnOnce(&[Tensor<'g>], &[Tensor<'g>]) -> (Vec<Tensor<'g>>, Vec<Tensor<'g>>),
    ) -> (Vec<Tensor<'g>>, Vec<Tensor<'g>>) {
        let fronted = self.in_front("scan", iterations, sliced);
        let faulty = fronted.iter().chain(carried).any(|t| t.is_poisoned());
        let mut builder = LoopBuilder::new(self, iterations, faulty);
        let params: Vec<_> = carried.iter().map(|t| builder.carry(*t)).collect();
        let slices: Vec<_> = fronted.iter().map(|t| builder.slice(*t)).collect();
        let (next, pieces) = body(&params, &slices);
        let next = self.as_carried("scan", carried, next);
        let outputs = builder.finish(&next, &pieces, None);
        let (last, stacks) = outputs.split_at(carried.len());
        (last.to_vec(), stacks.to_vec())
    }

    /// The sums, over the positions along the dim `iterations`, of what `body` returns for slices at
    /// that position. A sum over other split dims is settled once, after the last iteration.
    #[track_caller]
    pub fn sum_over<'g>(
        &'g self,
        iterations: Dimension,
        sliced: &[Tensor<'g>],
        body: impl FnOnce(&[Tensor<'g>]) -> Vec<Tensor<'g>>,
    ) -> Vec<Tensor<'g>> {
        let fronted = self.in_front("sum_over", iterations, sliced);
        let faulty = fronted.iter().any(|t| t.is_poisoned());
        let mut builder = LoopBuilder::new(self, iterations, faulty);
        let slices: Vec<_> = fronted.iter().map(|t| builder.slice(*t)).collect();
        let parts = body(&slices);
        let _caller = self.for_caller();
        let depth = self.data().open.len();
        let outside = self.outside(depth - 1);
        let zeros: Vec<_> = parts.iter().map(|part| part.fill_like(0.0)).collect();
        drop(outside);
        let mut sum = |(zero, part): (Tensor<'g>, &Tensor<'g>)| builder.carry(zero) + *part;
        let next: Vec<_> = zeros.into_iter().zip(&parts).map(&mut sum).collect();
        builder.finish(&next, &[], None)
    }

    /// Runs `body` on what is carried while `condition`, a bool of it, holds.
    ///
    /// Nobody knows the number of iterations, so there is no gradient. A sum over split dims that
    /// iterations only add to what they carry is settled once, after the last iteration.
    ///
    /// ```
    /// # use mesh_core::{graph::Graph, names::DType};
    /// # fn doc(g: &Graph, less: for<'g> fn(mesh_core::graph::Tensor<'g>, f64) -> mesh_core::graph::Tensor<'g>) {
    /// let one = g.scalar(1.0, DType::F32);
    /// let [power] = g.while_loop([one], |[x]| less(x, 1000.0), |[x]| [x * 2.0]); // 1024
    /// # let _ = power;
    /// # }
    /// ```
    #[track_caller]
    pub fn while_loop<'g, const C: usize>(
        &'g self,
        carried: [Tensor<'g>; C],
        condition: impl Fn([Tensor<'g>; C]) -> Tensor<'g>,
        body: impl FnOnce([Tensor<'g>; C]) -> [Tensor<'g>; C],
    ) -> [Tensor<'g>; C] {
        let given = |list: &[Tensor<'g>]| std::array::from_fn(|i| list[i]);
        let condition = |list: &[Tensor<'g>]| condition(given(list));
        let last = self.while_lists(&carried, condition, |list| body(given(list)).to_vec());
        given(&last)
    }

    /// As [`while_loop`](Self::while_loop), for numbers of tensors known only at run time.
    #[track_caller]
    pub fn while_lists<'g>(
        &'g self,
        carried: &[Tensor<'g>],
        condition: impl Fn(&[Tensor<'g>]) -> Tensor<'g>,
        body: impl FnOnce(&[Tensor<'g>]) -> Vec<Tensor<'g>>,
    ) -> Vec<Tensor<'g>> {
        let first = condition(carried);
        let bool_scalar = TensorType::new(Shape::scalar(), DType::Bool);
        if !first.is_poisoned() && first.tensor_type() != bool_scalar {
            let message =
                format!("the condition is {}, not a bool without dims", first.tensor_type());
            self.record("while_loop", message);
        }
        let mut builder = LoopBuilder::new(self, dim("iterations", MOST_ITERATIONS), false);
        let params: Vec<_> = carried.iter().map(|t| builder.carry(*t)).collect();
        let next = body(&params);
        let next = self.as_carried("while_loop", carried, next);
        let again = condition(&next);
        builder.finish(&next, &[], Some((first, again)))
    }

    /// Tensors with one of their dims first, all poisoned if one has it not.
    #[track_caller]
    fn in_front<'g>(
        &'g self,
        subject: &str,
        first: Dimension,
        tensors: &[Tensor<'g>],
    ) -> Vec<Tensor<'g>> {
        let _caller = self.for_caller();
        let has = |x: &Tensor<'g>| x.is_poisoned() || x.shape().get(first.name) == Some(first);
        if let Some(stray) = tensors.iter().find(|x| !has(x)) {
            self.record(subject, format!("{stray:?} has no dim {first} to slice"));
            return tensors.iter().map(|x| x.poisoned()).collect();
        }
        let front = |x: &Tensor<'g>| {
            let shape = x.shape();
            let fronted = stacked(first, &shape.without(&[first.name])).ok();
            match fronted.filter(|fronted| !x.is_poisoned() && *fronted != shape) {
                Some(fronted) => self.algebra().broadcast(*x, &fronted),
                None => *x,
            }
        };
        tensors.iter().map(front).collect()
    }

    /// What an iteration returns to be carried, in the order of dims it is carried in; another type is
    /// recorded.
    #[track_caller]
    fn as_carried<'g>(
        &'g self,
        subject: &str,
        carried: &[Tensor<'g>],
        next: Vec<Tensor<'g>>,
    ) -> Vec<Tensor<'g>> {
        if next.len() != carried.len() {
            let message = format!("{} tensors are carried, {} returned", carried.len(), next.len());
            self.record(subject, message);
            return vec![self.poison(); carried.len()];
        }
        let _caller = self.for_caller();
        let fit = |(before, after): (&Tensor<'g>, Tensor<'g>)| {
            let (want, got) = (before.tensor_type(), after.tensor_type());
            if before.is_poisoned() || after.is_poisoned() || want == got {
                return after;
            }
            if want.dtype != got.dtype || !want.shape.is_permutation_of(&got.shape) {
                self.record(subject, format!("{want} is carried, but the body returns {got}"));
                return self.poison();
            }
            self.algebra().broadcast(after, &want.shape)
        };
        carried.iter().zip(next).map(fit).collect()
    }
}

/// Builds a loop: its region is open from the start until the loop is finished.
pub(super) struct LoopBuilder<'g> {
    graph: &'g Graph,
    iterations: Dimension,
    region: RegionId,
    /// Whether positions fall.
    reverse: bool,
    /// What the first iteration carries.
    carried: Vec<Tensor<'g>>,
    /// Something it is made of is poisoned.
    faulty: bool,
}

impl<'g> LoopBuilder<'g> {
    /// Begins a loop; if it is `faulty`, its iterations are given poisoned tensors.
    #[track_caller]
    pub(super) fn new(graph: &'g Graph, iterations: Dimension, faulty: bool) -> Self {
        let region = graph.open(None);
        Self { graph, iterations, region, reverse: false, carried: Vec::new(), faulty }
    }

    /// Begins the loop that runs another's iterations backwards.
    #[track_caller]
    pub(super) fn undoing(graph: &'g Graph, forward: OperationId, run: &Loop) -> Self {
        let region = graph.open(Some((forward, run.region)));
        let (iterations, reverse) = (run.iterations, !run.reverse);
        Self { graph, iterations, region, reverse, carried: Vec::new(), faulty: false }
    }

    /// What an iteration is given for what is carried, `first` by the first.
    pub(super) fn carry(&mut self, first: Tensor<'g>) -> Tensor<'g> {
        self.carried.push(first);
        let faulty = self.faulty || first.is_poisoned();
        if faulty { self.graph.poison() } else { self.graph.carry(first) }
    }

    /// A slice, in each iteration, of a tensor whose first dim counts the iterations.
    pub(super) fn slice(&self, stack: Tensor<'g>) -> Tensor<'g> {
        if self.faulty { self.graph.poison() } else { self.graph.slice(stack) }
    }

    /// Closes the region and makes the loop, whose outputs it gives. `flags`: whether there is a first
    /// iteration, and after each whether there is another.
    #[track_caller]
    pub(super) fn finish(
        self,
        next: &[Tensor<'g>],
        pieces: &[Tensor<'g>],
        flags: Option<(Tensor<'g>, Tensor<'g>)>,
    ) -> Vec<Tensor<'g>> {
        let Self { graph, iterations, region: id, reverse, carried, .. } = self;
        let mut results: Vec<_> = next.iter().chain(pieces).copied().collect();
        results.extend(flags.map(|(_, again)| again));
        graph.close(&results);
        let count = next.len() + pieces.len();
        let nothing = || (0..count).map(|_| graph.poison()).collect();
        let region = graph.data().region(id).clone();
        let given = region.stacks.iter().chain(&region.captured);
        let given = given.map(|&id| Tensor::new(graph, id));
        let mut inputs: Vec<_> = carried.iter().copied().chain(given).collect();
        inputs.extend(flags.map(|(first, _)| first));
        let mut outputs: Vec<_> = next.iter().map(|t| t.tensor_type()).collect();
        let mut keys: Vec<Option<Key>> = next.iter().map(|t| t.key()).collect();
        for piece in pieces {
            let ty = piece.tensor_type();
            match stacked(iterations, &ty.shape) {
                Ok(shape) => outputs.push(TensorType::new(shape, ty.dtype)),
                Err(error) => {
                    graph.record("scan", format!("{piece:?} cannot be stacked: {error}"));
                    return nothing();
                }
            }
            keys.push(piece.key());
        }
        if inputs.iter().chain(&results).any(|t| t.is_poisoned()) {
            return nothing();
        }
        let op = Structural::Loop(Loop {
            region: id,
            iterations,
            reverse,
            conditional: flags.is_some(),
            carried: carried.len(),
            sliced: region.sliced.len(),
            outputs,
            saved: Vec::new(),
        });
        graph.apply_as(op, &inputs, count, Asked::keys(keys)).outputs
    }
}
