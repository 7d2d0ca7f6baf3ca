//! Computes equal things once: a step equal to an earlier one, after its inputs have been replaced
//! by the values they equal, is removed and its outs are replaced.
//!
//! Reads of one variable are equal, wherever they stand. Random numbers are equal if key, salts,
//! bounds and positions are. Calls are equal if their kernels say so. Tables are equal if they are one
//! array in memory. Writes are never equal.
//!
//! Loops are not compared, but what one is given twice, or stacks twice, is one. A barrier stands for a
//! computation that is to be made anew.
//!
//! A large cast to a wider dtype is made again where the first has not been needed for a while ([`FAR`]):
//! what it is made of is smaller, and alive in between anyway. Models in bf16 widen each activation
//! in the forward pass and again in the backward pass; merged, all of them would be kept in f32.
//!
//! Equal gathers stay apart: lowering gathers a sharded variable once per phase on purpose, so
//! that the whole of it need not live from the forward pass to the backward pass.

use super::compact;
use crate::program::forms::Loop;
use crate::program::{Block, Form, Generator, Instr, Operand, Prim, Step, Value, ValueId};
use indexmap::IndexSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Steps after which a wider copy that nobody has needed is not kept any longer. Products that share
/// a factor (those of a layer's gradients, queries and keys and values) stand closer than that.
pub(super) const FAR: usize = 24;

/// Bytes from which a wider copy is large. What is smaller saves nothing, and what is computed of it
/// (decays of a step number, say) would be computed again, too.
pub(super) const LARGE: usize = 1 << 16;

pub(super) fn run(block: &mut Block) {
    let mut equal: Vec<ValueId> = (0..block.values.len() as u32).map(ValueId).collect();
    let mut seen: IndexSet<Key<'_>> = IndexSet::with_capacity(block.steps.len());
    let mut repeats = vec![false; block.steps.len()];
    let values = &block.values;
    // By value, the step that needed it last, counting those that stay.
    let (mut needed, mut at) = (vec![0; values.len()], 0);
    for (step, repeats) in block.steps.iter_mut().zip(&mut repeats) {
        at += 1;
        for input in &mut step.inputs {
            input.value = equal[input.value.index()];
            needed[input.value.index()] = at;
        }
        step.outs.iter().for_each(|out| needed[out.index()] = at);
        if let Form::Loop(form) = &mut step.form {
            give_once(form, &step.inputs);
            run(&mut form.body);
            stack_once(form, &step.outs, &mut equal);
        }
        let apart = matches!(step.form, Form::AllGather(_) | Form::Barrier(_) | Form::Loop(_));
        if step.form.has_effect() || apart {
            continue;
        }
        let key = Key { step, values };
        let Some(first) = seen.get(&key) else {
            seen.insert(key);
            continue;
        };
        let since = |out: &ValueId| at - needed[out.index()];
        if widens(key.step, values) && first.step.outs.iter().map(since).min() > Some(FAR) {
            // Those behind are nearer to this one.
            seen.replace(key);
            continue;
        }
        *repeats = true;
        at -= 1;
        let pairs = key.step.outs.iter().zip(&first.step.outs);
        pairs.for_each(|(out, first)| equal[out.index()] = *first);
    }
    let mut repeats = repeats.into_iter();
    block.steps.retain(|_| repeats.next() != Some(true));
    block.results.iter_mut().for_each(|result| *result = equal[result.index()]);
    compact(block);
}

/// Has the body of a loop read one parameter of those that are the same slices, or the same value.
fn give_once(form: &mut Loop, inputs: &[Operand]) {
    let (slices, last) = (form.slices(), form.body.params.len() - 1);
    let body = &mut *form.body;
    let mut first = body.params.clone();
    for range in [slices.clone(), slices.end..last] {
        for i in range.clone() {
            let is_same = |&j: &usize| {
                let [one, other] = [i, j].map(|at| body.value(body.params[at]));
                inputs[i].value == inputs[j].value && one == other
            };
            let known = (range.start..i).find(is_same);
            first[i] = first[known.unwrap_or(i)];
        }
    }
    if first == body.params {
        return;
    }
    let renamed = |id: ValueId| {
        let position = body.params.iter().position(|param| *param == id);
        position.map_or(id, |position| first[position])
    };
    let read = body.steps.iter_mut().flat_map(|step| &mut step.inputs);
    read.map(|input| &mut input.value).chain(&mut body.results).for_each(|id| *id = renamed(*id));
}

/// Notes which of a loop's stacks are equal, since its body leaves one value for them.
fn stack_once(form: &Loop, outs: &[ValueId], equal: &mut [ValueId]) {
    let (stacks, results) = (form.stacks(), &form.body.results);
    for i in stacks.clone() {
        let known = (stacks.start..i).find(|&j| results[j] == results[i]);
        equal[outs[i].index()] = outs[known.unwrap_or(i)];
    }
}

/// Whether a step makes a large copy of its input in a dtype that takes more memory.
fn widens(step: &Step, values: &[Value]) -> bool {
    let (Form::Map(map), [input]) = (&step.form, &step.inputs[..]) else { return false };
    let [(Instr::Input(0), from), (Instr::Apply(Prim::Cast, _), to)] = map.body.code[..] else {
        return false;
    };
    let from_len = values[input.value.index()].len();
    let is_copy = |out: &Value| out.len() == from_len && out.bytes() >= LARGE;
    map.reads_all()
        && to.size() > from.size()
        && step.outs.iter().all(|out| is_copy(&values[out.index()]))
}

/// A step without its outs' ids, the outs' types, which the step does not determine, and who runs it.
struct Key<'p> {
    step: &'p Step,
    values: &'p [Value],
}

impl<'p> Key<'p> {
    fn outs(&self) -> impl Iterator<Item = &'p Value> {
        self.step.outs.iter().map(|out| &self.values[out.index()])
    }
}

impl Eq for Key<'_> {}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.step, other.step);
        one.inputs == two.inputs
            && one.owners == two.owners
            && same_form(&one.form, &two.form)
            && self.outs().eq(other.outs())
    }
}

fn same_form(one: &Form, other: &Form) -> bool {
    match (one, other) {
        (Form::Generate(one), Form::Generate(other)) => {
            (&one.begin, &one.global, &one.strides) == (&other.begin, &other.global, &other.strides)
                && same(&one.generator, &other.generator)
        }
        _ => one == other,
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
        let Step { form, inputs, .. } = self.step;
        std::mem::discriminant(form).hash(state);
        inputs.hash(state);
        match form {
            Form::Map(form) => form.hash(state),
            Form::Reduce(form) => form.hash(state),
            Form::Call(form) => form.hash(state),
            Form::Move(form) => form.pieces.hash(state),
            Form::Read(form) => form.hash(state),
            Form::Generate(form) => {
                (&form.begin, &form.global, &form.strides).hash(state);
                match &form.generator {
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
