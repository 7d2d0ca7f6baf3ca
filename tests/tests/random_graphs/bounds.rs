//! Propagates a property of tensors through a graph, op by op.

use mesh_core::graph::{Graph, Kind, LoopView, OperationView, TensorId};
use mesh_ops::prelude::*;
use std::collections::BTreeMap;

/// The most iterations of a drawn while loop, which its graph does not tell.
pub const WHILE_ROUNDS: usize = 3;

/// A property of a tensor.
pub trait Known: Copy {
    /// The property of a tensor that is one of two.
    fn either(self, other: Self) -> Self;
    /// The property of a loop's position, for this many iterations.
    fn position(rounds: usize) -> Self;
    /// The property of zeros.
    fn zero() -> Self;
}

/// An operation with the shapes of its tensors.
pub struct Site<'a> {
    pub operation: &'a OperationView,
    pub inputs: Vec<Shape>,
    pub output: Shape,
}

impl Site<'_> {
    /// The op's name.
    pub fn name(&self) -> &'static str {
        self.operation.op.name()
    }

    /// How many elements of the inputs' union there are for each element of the result.
    pub fn terms(&self) -> f64 {
        let all = self.inputs.iter().fold(Shape::scalar(), |all, s| all.union(s).unwrap());
        (all.size() as f64 / self.output.size() as f64).max(1.0)
    }

    /// Elements of an input.
    pub fn size(&self, input: usize) -> f64 {
        self.inputs[input].size() as f64
    }

    /// The longest dim of the first input.
    pub fn longest(&self) -> f64 {
        self.inputs[0].iter().map(|d| d.size).max().unwrap_or(1) as f64
    }

    /// The sizes of the first input's dims whose names the result lacks.
    pub fn gone(&self) -> f64 {
        let gone = self.inputs[0].iter().filter(|d| !self.output.contains(d.name));
        gone.map(|d| d.size).product::<usize>() as f64
    }
}

/// The property of every tensor. `rule` gives it for the outputs of an op.
///
/// Loops are followed iteration by iteration: what an iteration gets has the property of the loop's
/// input, or of what any earlier iteration left.
/// of what the first is given or any round before leaves.
pub fn propagate<T: Known>(
    graph: &Graph,
    rule: impl Fn(&Site<'_>, &[T]) -> Vec<T>,
) -> BTreeMap<TensorId, T> {
    let operations = graph.operations();
    let mut known = BTreeMap::new();
    // The operations of a body come before their loop, so an iteration of each loop takes a sweep
    // over all operations; the operations after a loop need one more.
    let mut sweep = 0;
    let loops: Vec<_> = operations.iter().filter_map(|o| view(o).map(|l| (o, l))).collect();
    let spans: Vec<_> = loops
        .iter()
        .map(|(_, l)| {
            let rounds = if l.conditional { WHILE_ROUNDS } else { l.iterations };
            let first = sweep;
            sweep += rounds;
            (first, rounds)
        })
        .collect();
    for sweep in 0..sweep.max(1) {
        for operation in &operations {
            if matches!(operation.kind, Kind::Param) {
                let param = operation.outputs[0];
                for ((o, l), (first, rounds)) in loops.iter().zip(&spans) {
                    let before: Option<T> = known.get(&param).copied();
                    if let Some(now) = given(&known, param, o, l, before, sweep, *first, *rounds) {
                        known.insert(param, now);
                    }
                }
                continue;
            }
            let of = |t: &TensorId| known.get(t).copied();
            let made: Vec<T> = match view(operation) {
                Some(l) => {
                    let results = l.results.iter().map(|t| known[t]);
                    results.map(|made| made.either(T::zero())).collect()
                }
                None => {
                    let shape = |t: &TensorId| graph.type_of(*t).shape;
                    let inputs = operation.inputs.iter().map(shape).collect();
                    let output = operation.outputs.first().map(shape).unwrap_or_default();
                    let x: Vec<_> = operation.inputs.iter().map(|t| of(t).unwrap()).collect();
                    rule(&Site { operation, inputs, output }, &x)
                }
            };
            known.extend(operation.outputs.iter().copied().zip(made));
        }
    }
    known
}

fn view(operation: &OperationView) -> Option<&LoopView> {
    match &operation.kind {
        Kind::Loop(l) => Some(l),
        _ => None,
    }
}

#[expect(clippy::too_many_arguments, reason = "one caller, which has them all at hand")]
fn given<T: Known>(
    known: &BTreeMap<TensorId, T>,
    param: TensorId,
    operation: &OperationView,
    l: &LoopView,
    before: Option<T>,
    sweep: usize,
    first: usize,
    rounds: usize,
) -> Option<T> {
    let input = |i: usize| known[&operation.inputs[i]];
    if param == l.position {
        return Some(T::position(l.iterations.min(1 << 20)));
    }
    if let Some(i) = l.sliced.iter().position(|&t| t == param) {
        return Some(input(l.carried.len() + i));
    }
    let i = l.carried.iter().position(|&t| t == param)?;
    let running = (first + 1..first + rounds).contains(&sweep);
    match before {
        Some(before) if running => Some(before.either(known[&l.results[i]])),
        Some(before) if sweep >= first + rounds => Some(before),
        _ => Some(input(i)),
    }
}
