//! Computes equal things once: a step equal to an earlier one, after its inputs have been replaced
//! by the values they equal, is removed and its outs are replaced.
//!
//! Reads of one variable are equal, wherever they stand. Random numbers are equal if key, salts,
//! bounds and positions are. Calls are equal if their kernels say so. Tables are equal if they are one array in memory. Writes are never equal.
//!
//! Loops are not compared, and a barrier stands for a computation that is to be made anew.
//!
//! A cast to a wider dtype is made again where the first has not been needed for a while ([`FAR`]): what it
//! is made of is smaller, and alive in between anyway. Models in bf16 widen each activation in the forward
//! pass and again in the backward pass; were they merged, all would be kept in f32.
//!
//! Equal gathers stay apart: lowering gathers a sharded variable once per use region on purpose, so
//! that the whole of it need not live from the forward pass to the backward pass.

use super::compact;
use crate::names::Mesh;
use crate::program::{Generator, Instr, Node, Prim, Program, Step, Value, ValueId};
use indexmap::IndexSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Steps after which a wider copy that nobody has needed is not kept any longer. Products that share a
/// factor (those of a layer's gradients, queries and keys and values) stand closer than that.
pub(super) const FAR: usize = 24;

pub(super) fn run(program: &mut Program, _mesh: &Mesh) {
    let mut equal: Vec<ValueId> = (0..program.values.len() as u32).map(ValueId).collect();
    let mut seen: IndexSet<Key<'_>> = IndexSet::with_capacity(program.steps.len());
    let mut repeats = vec![false; program.steps.len()];
    let values = &program.values;
    // By value, the step that needed it last.
    let mut needed = vec![0; values.len()];
    for (at, (node, repeats)) in program.steps.iter_mut().zip(&mut repeats).enumerate() {
        node.step.each_input(|input| {
            *input = equal[input.index()];
            needed[input.index()] = at;
        });
        node.step.outs().iter().for_each(|out| needed[out.index()] = at);
        let apart =
            matches!(node.step, Step::AllGather { .. } | Step::Barrier { .. } | Step::Loop(_));
        if node.step.has_effect() || apart {
            continue;
        }
        let key = Key { node, values };
        let Some(first) = seen.get(&key) else {
            seen.insert(key);
            continue;
        };
        let since = |out: &ValueId| at - needed[out.index()];
        if widens(&key.node.step, values)
            && first.node.step.outs().iter().map(since).min() > Some(FAR)
        {
            // Those behind are nearer to this one.
            seen.replace(key);
            continue;
        }
        *repeats = true;
        let pairs = key.node.step.outs().iter().zip(first.node.step.outs());
        pairs.for_each(|(out, first)| equal[out.index()] = *first);
    }
    let mut repeats = repeats.into_iter();
    program.steps.retain(|_| repeats.next() != Some(true));
    program.fetches.iter_mut().for_each(|slot| slot.value = equal[slot.value.index()]);
    compact(program);
}

/// Whether a step only casts to a dtype that takes more memory.
fn widens(step: &Step, values: &[Value]) -> bool {
    let Step::Map { body, inputs, outs } = step else { return false };
    let ([(Instr::Input(0), from), (Instr::Apply(Prim::Cast, _), to)], [input]) =
        (&body.code[..], &inputs[..])
    else {
        return false;
    };
    let same = |out: &ValueId| values[out.index()].len() == values[input.value.index()].len();
    to.size() > from.size() && outs.iter().all(same)
}

/// A step without its outs' ids, the outs' types, which the step does not determine, and who runs it.
struct Key<'p> {
    node: &'p Node,
    values: &'p [Value],
}

impl<'p> Key<'p> {
    fn outs(&self) -> impl Iterator<Item = &'p Value> {
        self.node.step.outs().iter().map(|out| &self.values[out.index()])
    }

    /// Whether the steps are equal, if they define the same.
    fn does_as(&self, other: &Self) -> bool {
        let mut step = self.node.step.clone();
        let mut outs = other.node.step.outs().iter();
        step.each_out(|out| *out = outs.next().copied().unwrap_or(*out));
        match (&step, &other.node.step) {
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
        }
    }
}

impl Eq for Key<'_> {}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.outs().eq(other.outs()) && self.node.owners == other.node.owners && self.does_as(other)
    }
}

/// Equality by address and bits, so that it is one and linear in nothing.
fn same(one: &Generator, other: &Generator) -> bool {
    match (one, other) {
        (Generator::Table(array), Generator::Table(array2)) => Arc::ptr_eq(array, array2),
        _ => one == other,
    }
}

impl Hash for Key<'_> {
    /// What tells most steps apart: all of a key would take longer to hash than to compare.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let step = &self.node.step;
        std::mem::discriminant(step).hash(state);
        step.inputs().hash(state);
        match step {
            Step::Map { body, .. } => body.hash(state),
            Step::Call { kernel, .. } => kernel.hash(state),
            Step::Move { pieces, .. } => pieces.hash(state),
            Step::Read { variable, .. } => variable.hash(state),
            Step::Generate { generator, begin, global, .. } => {
                (begin, global).hash(state);
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
