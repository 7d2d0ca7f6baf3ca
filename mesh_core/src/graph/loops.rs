//! Loops: `scan`, which has a gradient, and `while_loop`.

use super::block::stacked;
use super::structural::Loop;
use super::{Asked, BlockId, GradCx, Graph, Key, OpError, Tensor, TensorType};
use crate::names::{DType, Dimension, Shape, dim};

/// The most rounds of a while loop: positions are i32.
const MOST_ROUNDS: usize = i32::MAX as usize;

impl Graph {
    /// Runs `body` once for each position along the dim `rounds`, in order; the body is compiled
    /// once.
    ///
    /// A round is given what is carried and, of each of `sliced` (which have the dim), the slice at
    /// its position; it returns what the next round carries, of the same types, and what is stacked
    /// along the dim. Results are what the last round carries, and the stacks.
    ///
    /// The gradient runs the rounds backwards; what it needs of the forward pass is stacked for it.
    /// The dim cannot be split. A sum over other split dims that rounds only add to what they carry
    /// is settled once, after the last round.
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
        rounds: Dimension,
        carried: [Tensor<'g>; C],
        sliced: [Tensor<'g>; X],
        body: impl FnOnce([Tensor<'g>; C], [Tensor<'g>; X]) -> ([Tensor<'g>; C], [Tensor<'g>; Y]),
    ) -> ([Tensor<'g>; C], [Tensor<'g>; Y]) {
        let (last, stacks) = self.scan_lists(rounds, &carried, &sliced, |carried, sliced| {
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
        rounds: Dimension,
        carried: &[Tensor<'g>],
        sliced: &[Tensor<'g>],
        body: impl FnOnce(&[Tensor<'g>], &[Tensor<'g>]) -> (Vec<Tensor<'g>>, Vec<Tensor<'g>>),
    ) -> (Vec<Tensor<'g>>, Vec<Tensor<'g>>) {
        let fronted = self.in_front("scan", rounds, sliced);
        let faulty = fronted.iter().chain(carried).any(|t| t.is_poisoned());
        let building = Building::new(self, None);
        let given = |t: &Tensor<'g>| {
            if faulty { self.poison() } else { building.carried(self, *t) }
        };
        let params: Vec<_> = carried.iter().map(given).collect();
        let slice =
            |t: &Tensor<'g>| if faulty { self.poison() } else { self.slice_in(building.block, *t) };
        let slices: Vec<_> = fronted.iter().map(slice).collect();
        let (next, pieces) = body(&params, &slices);
        let next = self.as_carried("scan", carried, next);
        let outputs = building.finish(self, rounds, false, carried, &next, &pieces, None);
        let (last, stacks) = outputs.split_at(carried.len());
        (last.to_vec(), stacks.to_vec())
    }

    /// The sums, over the positions along the dim `rounds`, of what `body` returns for slices at
    /// that position. A sum over other split dims is settled once, after the last round.
    #[track_caller]
    pub fn sum_over<'g>(
        &'g self,
        rounds: Dimension,
        sliced: &[Tensor<'g>],
        body: impl FnOnce(&[Tensor<'g>]) -> Vec<Tensor<'g>>,
    ) -> Vec<Tensor<'g>> {
        let fronted = self.in_front("sum_over", rounds, sliced);
        let faulty = fronted.iter().any(|t| t.is_poisoned());
        let building = Building::new(self, None);
        let slice =
            |t: &Tensor<'g>| if faulty { self.poison() } else { self.slice_in(building.block, *t) };
        let parts = body(&fronted.iter().map(slice).collect::<Vec<_>>());
        let _caller = self.for_caller();
        let outer = self.data().open.len() - 1;
        let blocks = self.leave(outer);
        let zeros: Vec<_> =
            parts.iter().map(|t| if t.is_poisoned() { *t } else { t.fill_like(0.0) }).collect();
        self.reenter(blocks);
        let sum = |(zero, part): (&Tensor<'g>, &Tensor<'g>)| {
            if zero.is_poisoned() { *zero } else { building.carried(self, *zero) + *part }
        };
        let next: Vec<_> = zeros.iter().zip(&parts).map(sum).collect();
        building.finish(self, rounds, false, &zeros, &next, &[], None)
    }

    /// Runs `body` on what is carried while `condition`, a bool of it, holds.
    ///
    /// Nobody knows the number of rounds, so there is no gradient. A sum over split dims that
    /// rounds only add to what they carry is settled once, after the last round.
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
        let first = condition(carried);
        let bool_scalar = TensorType::new(Shape::scalar(), DType::Bool);
        if !first.is_poisoned() && first.tensor_type() != bool_scalar {
            let message =
                format!("the condition is {}, not a bool without dims", first.tensor_type());
            self.record("while_loop", message);
        }
        let building = Building::new(self, None);
        let params = carried
            .map(|t| if t.is_poisoned() { self.poison() } else { building.carried(self, t) });
        let next = body(params);
        let next = self.as_carried("while_loop", &carried, next.to_vec());
        let again = condition(std::array::from_fn(|i| next[i]));
        let rounds = dim("rounds", MOST_ROUNDS);
        let flags = Some((first, again));
        let last = building.finish(self, rounds, false, &carried, &next, &[], flags);
        std::array::from_fn(|i| last[i])
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

    /// What a round returns to be carried, in the order of dims it is carried in; another type is
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

    /// The cotangents of a loop's inputs: its rounds backwards.
    pub(super) fn undo<'g>(
        &'g self,
        l: &Loop,
        cx: &GradCx<'g>,
    ) -> Result<Vec<Option<Tensor<'g>>>, OpError> {
        let block = self.data().blocks[l.block.index()].clone();
        let tensor = |id| Tensor::new(self, id);
        let is_float = |i: usize| cx.input(i).dtype().is_float();
        let floats: Vec<_> = (0..l.carried).filter(|&i| is_float(i)).collect();
        let first = l.carried + l.sliced;
        let sums: Vec<_> = (first..cx.arity()).filter(|&i| is_float(i) && cx.needs(i)).collect();
        let slices: Vec<_> = (l.carried..first).filter(|&i| is_float(i) && cx.needs(i)).collect();
        // Carried backwards: cotangents of what is carried, sums of those of what is captured.
        let of_output = |i: usize| cx.dy_of(i).unwrap_or_else(|| cx.output(i).fill_like(0.0));
        let seeds = floats.iter().map(|&i| of_output(i));
        let zeros = sums.iter().map(|&i| cx.input(i).fill_like(0.0));
        let carried: Vec<_> = seeds.chain(zeros).collect();

        let building = Building::new(self, Some((cx.operation, l.block)));
        let params: Vec<_> = carried.iter().map(|&t| building.carried(self, t)).collect();
        let results: Vec<_> = block.results.iter().chain(&l.saved).map(|&id| tensor(id)).collect();
        let mut ys: Vec<_> = floats.iter().zip(&params).map(|(&i, &dy)| (results[i], dy)).collect();
        for (i, &result) in results.iter().enumerate().skip(l.carried) {
            if let Some(dy) = cx.dy_of(i) {
                ys.push((result, self.slice_in(building.block, dy)));
            }
        }
        let xs = floats.iter().map(|&i| block.carried[i]);
        let xs = xs.chain(sums.iter().map(|&i| block.captured[i - first]));
        let xs = xs.chain(slices.iter().map(|&i| block.sliced[i - l.carried]));
        let xs: Vec<_> = xs.map(tensor).collect();
        let grads = self.gradients_within(l.block, &ys, &xs);
        let mut next = Vec::new();
        for (k, (&param, grad)) in params.iter().zip(&grads).enumerate() {
            next.push(match grad {
                None if k < floats.len() => param.fill_like(0.0),
                None => param,
                Some(grad) if k < floats.len() => self.reach(*grad)?,
                Some(grad) => param + *grad,
            });
        }
        let mut pieces = Vec::new();
        for (grad, x) in grads[params.len()..].iter().zip(&xs[params.len()..]) {
            pieces.push(match grad {
                Some(grad) => self.reach(*grad)?,
                None => x.fill_like(0.0),
            });
        }
        let found = building.finish(self, l.rounds, !l.reverse, &carried, &next, &pieces, None);
        let mut all = vec![None; cx.arity()];
        floats
            .iter()
            .chain(&sums)
            .chain(&slices)
            .zip(found)
            .for_each(|(&i, grad)| all[i] = Some(grad));
        Ok(all)
    }
}

/// A loop under construction.
struct Building {
    block: BlockId,
}

impl Building {
    #[track_caller]
    fn new(graph: &Graph, undoes: Option<(super::OperationId, BlockId)>) -> Self {
        Self { block: graph.open(undoes) }
    }

    /// What a round is given for what is carried.
    fn carried<'g>(&self, graph: &'g Graph, first: Tensor<'g>) -> Tensor<'g> {
        let param = graph.param(self.block, first.tensor_type(), first.key());
        graph.data.borrow_mut().blocks[self.block.index()].carried.push(param.id());
        param
    }

    /// Closes the block and makes the loop. `flags`: whether there is a first round, and after each
    /// whether there is another.
    #[track_caller]
    #[expect(clippy::too_many_arguments, reason = "private; what a loop is made of")]
    fn finish<'g>(
        self,
        graph: &'g Graph,
        rounds: Dimension,
        reverse: bool,
        carried: &[Tensor<'g>],
        next: &[Tensor<'g>],
        pieces: &[Tensor<'g>],
        flags: Option<(Tensor<'g>, Tensor<'g>)>,
    ) -> Vec<Tensor<'g>> {
        let mut results: Vec<_> = next.iter().chain(pieces).copied().collect();
        results.extend(flags.map(|(_, again)| again));
        graph.close(self.block, &results);
        let count = next.len() + pieces.len();
        let node = graph.data().blocks[self.block.index()].clone();
        let given = node.stacks.iter().chain(&node.captured).map(|&id| Tensor::new(graph, id));
        let mut inputs: Vec<_> = carried.iter().copied().chain(given).collect();
        inputs.extend(flags.map(|(first, _)| first));
        let mut outputs: Vec<_> = next.iter().map(|t| t.tensor_type()).collect();
        let mut keys: Vec<Option<Key>> = next.iter().map(|t| t.key()).collect();
        for piece in pieces {
            let ty = piece.tensor_type();
            match stacked(rounds, &ty.shape) {
                Ok(shape) => outputs.push(TensorType::new(shape, ty.dtype)),
                Err(error) => {
                    graph.record("scan", format!("{piece:?} cannot be stacked: {error}"));
                    return (0..count).map(|_| graph.poison()).collect();
                }
            }
            keys.push(piece.key());
        }
        if inputs.iter().chain(&results).any(|t| t.is_poisoned()) {
            return (0..count).map(|_| graph.poison()).collect();
        }
        let op = Loop {
            block: self.block,
            rounds,
            reverse,
            conditional: flags.is_some(),
            carried: carried.len(),
            sliced: node.sliced.len(),
            outputs,
            saved: Vec::new(),
        };
        graph.apply_as(op, &inputs, count, Asked::keys(keys))
    }
}
