//! Computes equal things once: a step equal to an earlier one, after its inputs have been replaced
//! by the values they equal, is removed and its outs are replaced.
//!
//! Reads of one variable are equal, wherever they stand. Random numbers are equal if key, salts,
//! bounds and positions are. Calls are equal if their kernels say so. Tables are equal if they are one array in memory. Writes are never equal.
//!
//! Loops are not compared, and a barrier stands for a computation that is to be made anew.
//!
//! Equal gathers stay apart: lowering gathers a sharded variable once per use region on purpose, so
//! that the whole of it need not live from the forward pass to the backward pass.

use super::compact;
use crate::names::Mesh;
use crate::program::{Generator, Node, Owners, Program, Step, Value, ValueId};
use indexmap::IndexMap;
use indexmap::map::Entry;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(super) fn run(program: &mut Program, _mesh: &Mesh) {
    let mut equal: Vec<ValueId> = (0..program.values.len() as u32).map(ValueId).collect();
    let mut seen: IndexMap<Key, SmallVec<[ValueId; 1]>> = IndexMap::new();
    let values = &program.values;
    program.steps.retain_mut(|node| {
        node.step.each_input(|input| *input = equal[input.index()]);
        let apart =
            matches!(node.step, Step::AllGather { .. } | Step::Barrier { .. } | Step::Loop(_));
        if node.step.has_effect() || apart {
            return true;
        }
        let outs = node.step.outs();
        match seen.entry(Key::new(node, values)) {
            Entry::Vacant(first) => {
                first.insert(outs);
                true
            }
            Entry::Occupied(first) => {
                outs.iter().zip(first.get()).for_each(|(out, first)| equal[out.index()] = *first);
                false
            }
        }
    });
    program.fetches.iter_mut().for_each(|slot| slot.value = equal[slot.value.index()]);
    compact(program);
}

/// A step without its outs' ids, the outs' types, which the step does not determine, and who runs it.
struct Key {
    step: Step,
    outs: SmallVec<[Value; 1]>,
    owners: Owners,
}

impl Key {
    fn new(node: &Node, values: &[Value]) -> Self {
        let outs = node.step.outs().iter().map(|out| values[out.index()].clone()).collect();
        let mut step = node.step.clone();
        step.each_out(|out| *out = ValueId(u32::MAX));
        Self { step, outs, owners: node.owners.clone() }
    }
}

impl Eq for Key {}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let steps = match (&self.step, &other.step) {
            (
                Step::Generate { generator, salts, begin, global, .. },
                Step::Generate {
                    generator: generator2,
                    salts: salts2,
                    begin: begin2,
                    global: global2,
                    ..
                },
            ) => (salts, begin, global) == (salts2, begin2, global2) && same(generator, generator2),
            (step, step2) => step == step2,
        };
        steps && (&self.outs, &self.owners) == (&other.outs, &other.owners)
    }
}

/// Equality by address and bits, so that it is one and linear in nothing.
fn same(one: &Generator, other: &Generator) -> bool {
    match (one, other) {
        (Generator::Table(array), Generator::Table(array2)) => Arc::ptr_eq(array, array2),
        _ => one == other,
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.outs, &self.owners).hash(state);
        std::mem::discriminant(&self.step).hash(state);
        self.step.inputs().hash(state);
        self.step.axes().hash(state);
        match &self.step {
            Step::Map { body, inputs, .. } => (body, inputs).hash(state),
            Step::Reduce { input, .. } => input.hash(state),
            Step::Contract { lhs, rhs, .. } | Step::Convolve { lhs, rhs, .. } => {
                (lhs, rhs).hash(state);
            }
            Step::Gather { input: one, indices, begin, .. }
            | Step::Scatter { updates: one, indices, begin, .. } => {
                (one, indices, begin).hash(state);
            }
            Step::Sort { inputs, descending, .. } => (inputs, descending).hash(state),
            Step::Scan { dim, reverse, .. } => (dim, reverse).hash(state),
            Step::Call { kernel, .. } => kernel.hash(state),
            Step::Move { pieces, fill, .. } => (pieces, fill).hash(state),
            Step::Read { variable, .. } => variable.hash(state),
            Step::Generate { generator, begin, .. } => {
                begin.hash(state);
                match generator {
                    Generator::Fill(scalar) => scalar.hash(state),
                    Generator::Iota(dim) => dim.hash(state),
                    Generator::Table(array) => Arc::as_ptr(array).hash(state),
                    random => random.key().hash(state),
                }
            }
            _ => {}
        }
    }
}
