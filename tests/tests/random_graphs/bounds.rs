//! Something known of every tensor, derived op by op from what is known of its inputs.

use mesh_core::graph::{Graph, Kind, LoopView, OperationView, TensorId};
use mesh_ops::prelude::*;
use std::collections::BTreeMap;

/// The most rounds of a while loop that is drawn: its graph does not say.
pub const WHILE_ROUNDS: usize = 3;

/// What is known of a tensor.
pub trait Known: Copy {
    /// Of either of two.
    fn either(self, other: Self) -> Self;
    /// Of the position of a loop of so many rounds.
    fn position(rounds: usize) -> Self;
    /// Of zeros.
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

    /// How many elements of the inputs' union there are for each of the result.
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

/// What is known of every tensor: `rule` says it of the outputs of an op.
///
/// What a loop carries is followed round by round: of what a round is given is known what is known
/// of what the first is given or any round before leaves.
pub fn propagate<T: Known>(
    graph: &Graph,
    rule: impl Fn(&Site<'_>, &[T]) -> Vec<T>,
) -> BTreeMap<TensorId, T> {
    let operations = graph.operations();
    let mut known = BTreeMap::new();
    // The operations of a body stand before their loop, so each loop's rounds are made up by
    // sweeps over all; those of later loops come after.
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
