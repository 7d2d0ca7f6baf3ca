//! What is the same in all iterations of a loop is computed once, before it.
//!
//! A step leaves the body if all it reads is the same in every iteration, unless it makes more bytes than
//! it reads and too many to stay in cache: those would have to be kept, and fetched, through all
//! iterations. So a parameter that is gathered for an iteration stays gathered for that alone. What is
//! generated is repeated rather than kept. A barrier keeps its place, and what comes behind it. So does
//! what runs once at most: before the loop it would run always.

use super::compact;
use crate::program::forms::Loop;
use crate::program::{Block, Form, Operand, Step, Value, ValueId};

/// Bytes that are cheap to keep.
const SMALL: usize = 1 << 20;

pub(super) fn run(block: &mut Block) {
    let steps = Vec::with_capacity(block.steps.len());
    for mut step in std::mem::replace(&mut block.steps, steps) {
        if let Form::Loop(form) = &mut step.form {
            run(&mut form.body);
            if form.count == 1 {
                block.steps.push(step);
                continue;
            }
            let moved = hoist(block, form, &step.inputs);
            let captured =
                moved.into_iter().map(|id| Operand::whole(id, block.value(id).extents.len()));
            let end = step.inputs.len() - usize::from(form.conditional);
            step.inputs.insert_many(end, captured);
        }
        block.steps.push(step);
    }
}

/// Moves steps of a loop's body to the end of the block that the loop is about to join, and gives what
/// they make that the body needs. What is generated stays, and is generated there once more for what
/// leaves; some of it nobody needs then.
fn hoist(block: &mut Block, form: &mut Loop, inputs: &[Operand]) -> Vec<ValueId> {
    let captured = form.slices().end;
    let body = &mut *form.body;
    let mut outside: Vec<Option<ValueId>> = vec![None; body.values.len()];
    let last = body.params.len() - 1;
    for (param, outer) in body.params[..last].iter().zip(inputs).skip(captured) {
        outside[param.index()] = Some(outer.value);
    }
    let steps = std::mem::take(&mut body.steps);
    let generated = vec![None; body.values.len()];
    let mut leaving = Leaving { block, body, outside, generated };
    let mut moved = Vec::new();
    for step in steps {
        let same = step.reads().all(|input| leaving.is_same(input));
        if !same || !may_leave(&step, &leaving.body.values) {
            leaving.body.steps.push(step);
        } else if let Form::Generate(_) = &step.form {
            leaving.generated[step.outs[0].index()] = Some(leaving.body.steps.len());
            leaving.body.steps.push(step);
        } else {
            moved.extend(leaving.leave(step));
        }
    }
    moved.retain(|(inner, _)| is_used(body, *inner));
    let (inner, outer): (Vec<_>, Vec<_>) = moved.into_iter().unzip();
    // The position comes last.
    body.params.splice(last..last, inner);
    compact(body);
    outer
}

/// A block and the body of a loop at its end.
struct Leaving<'p> {
    block: &'p mut Block,
    body: &'p mut Block,
    /// By the body's values: what they are in the block.
    outside: Vec<Option<ValueId>>,
    /// By the body's values: the step of the body that generates the same in every iteration.
    generated: Vec<Option<usize>>,
}

impl Leaving<'_> {
    /// Whether a value of the body is the same in every iteration.
    fn is_same(&self, value: ValueId) -> bool {
        self.outside[value.index()].is_some() || self.generated[value.index()].is_some()
    }

    /// Puts a step at the end of the block, behind what it reads; gives its outs in the body and there.
    fn leave(&mut self, mut step: Step) -> Vec<(ValueId, ValueId)> {
        for input in step.reads() {
            let known = self.outside[input.index()].is_some();
            if let Some(step) = self.generated[input.index()].filter(|_| !known) {
                self.leave(self.body.steps[step].clone());
            }
        }
        let Self { block, body, outside, .. } = self;
        for input in &mut step.inputs {
            input.value = outside[input.value.index()].unwrap_or(input.value);
        }
        let mut made = Vec::new();
        for out in &mut step.outs {
            let outer = block.define(body.value(*out).clone());
            outside[out.index()] = Some(outer);
            made.push((*out, outer));
            *out = outer;
        }
        block.steps.push(step);
        made
    }
}

fn may_leave(step: &Step, values: &[Value]) -> bool {
    let bytes = |id: ValueId| values[id.index()].bytes();
    let stays = matches!(step.form, Form::Barrier(_) | Form::Read(_) | Form::Write(_));
    let made = step.outs.iter().copied().map(bytes).sum::<usize>();
    let read = || step.reads().map(bytes).sum();
    !stays && step.owners.is_empty() && (made <= SMALL || made <= read())
}

fn is_used(body: &Block, value: ValueId) -> bool {
    body.steps.iter().any(|step| step.has_input(value)) || body.results.contains(&value)
}
