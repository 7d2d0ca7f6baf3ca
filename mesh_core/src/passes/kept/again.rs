//! Steps of one loop that another does again.

use crate::program::forms::Loop;
use crate::program::{Block, Form, Operand, Origin, Step, Value, ValueId};
use smallvec::SmallVec;
use std::sync::Arc;

/// What a loop's body keeps for another loop, and what that makes again.
pub(super) struct Again {
    /// By the first body's values: the step that is done again.
    steps: Vec<Option<Step>>,
    /// Values of the first body that the second is given.
    kept: Vec<ValueId>,
    /// Values of the first body with the second's parameters that they have been so far.
    wanted: Vec<(ValueId, ValueId)>,
}

impl Again {
    pub(super) fn new(values: usize, wanted: Vec<(ValueId, ValueId)>) -> Self {
        Self { steps: vec![None; values], kept: Vec::new(), wanted }
    }

    /// Notes that a value is made again, by which step; says whether that is news.
    pub(super) fn repeat(&mut self, value: ValueId, step: &Step) -> bool {
        let known = &mut self.steps[value.index()];
        let news = known.is_none();
        known.get_or_insert_with(|| step.clone());
        news
    }

    pub(super) fn keep(&mut self, value: ValueId) {
        if !self.kept.contains(&value) {
            self.kept.push(value);
        }
    }

    pub(super) fn is_repeated(&self, value: ValueId) -> bool {
        self.steps[value.index()].is_some()
    }

    /// Has the loop at the second position make again what it makes again. What it was given for that is left over.
    pub(super) fn write(self, block: &mut Block, at: [usize; 2]) {
        let Block { values, steps, .. } = block;
        let (before, rest) = steps.split_at_mut(at[1]);
        let (first, second) = (&mut before[at[0]], &mut rest[0]);
        let inputs = first.inputs.clone();
        let (Form::Loop(from), Form::Loop(to)) = (&mut first.form, &mut second.form) else {
            return;
        };
        let mut here = vec![None; self.steps.len()];
        for &value in &self.kept {
            let ty = from.body.value(value).clone();
            let param = from.body.params.iter().position(|param| *param == value);
            let into = &mut second.inputs;
            here[value.index()] = match param {
                Some(i) if i + 1 == from.body.params.len() => to.position(),
                Some(i) if i >= from.slices().end => Some(given(to, into, &inputs[i], ty, false)),
                Some(i) if i >= from.carried => Some(given(to, into, &inputs[i], ty, true)),
                _ => {
                    let stack = stack(from, &mut first.outs, value, values);
                    let outer = Operand::whole(stack, ty.extents.len() + 1);
                    Some(given(to, into, &outer, ty, true))
                }
            };
        }
        self.weave(&from.body.values, &mut to.body, here);
    }

    /// Puts the steps where their results are first read; `here`: what the first body's values are in the second.
    fn weave(self, values: &[Value], body: &mut Block, here: Vec<Option<ValueId>>) {
        let Self { steps, wanted, .. } = self;
        let old = std::mem::take(&mut body.steps);
        let mut weaving = Weaving { values, steps, body, here };
        let made = |weaving: &mut Weaving<'_>, id: &mut ValueId| {
            let value = wanted.iter().find(|(_, param)| param == id).map(|(value, _)| *value);
            if let Some(value) = value.filter(|value| weaving.steps[value.index()].is_some()) {
                *id = weaving.value(value).unwrap_or(*id);
            }
        };
        for mut step in old {
            step.inputs.iter_mut().for_each(|input| made(&mut weaving, &mut input.value));
            weaving.body.steps.push(step);
        }
        let mut results = std::mem::take(&mut weaving.body.results);
        results.iter_mut().for_each(|result| made(&mut weaving, result));
        weaving.body.results = results;
    }
}

struct Weaving<'a> {
    values: &'a [Value],
    steps: Vec<Option<Step>>,
    body: &'a mut Block,
    here: Vec<Option<ValueId>>,
}

impl Weaving<'_> {
    /// A value of the first body in the second, where it is made now if it has not been.
    fn value(&mut self, value: ValueId) -> Option<ValueId> {
        if let Some(known) = self.here[value.index()] {
            return Some(known);
        }
        let mut step = self.steps[value.index()].clone()?;
        for input in &mut step.inputs {
            input.value = self.value(input.value)?;
        }
        for out in &mut step.outs {
            let made = self.body.define(self.values[out.index()].clone());
            self.here[out.index()] = Some(made);
            *out = made;
        }
        step.origin = Arc::new(Origin { again: true, ..Origin::clone(&step.origin) });
        self.body.steps.push(step);
        self.here[value.index()]
    }
}

/// What a loop stacks of a value of its body, from now on if it did not.
fn stack(
    form: &mut Loop,
    outs: &mut SmallVec<[ValueId; 1]>,
    value: ValueId,
    values: &mut Vec<Value>,
) -> ValueId {
    if let Some(known) = form.stacks().find(|&i| form.body.results[i] == value) {
        return outs[known];
    }
    let out = ValueId(values.len() as u32);
    values.push(form.body.value(value).stacked(form.count));
    form.body.results.push(value);
    outs.push(out);
    out
}

/// The parameter of a loop's body that is a slice of a value, or all of it, as it is given now if it was not.
fn given(
    form: &mut Loop,
    inputs: &mut SmallVec<[Operand; 2]>,
    outer: &Operand,
    ty: Value,
    sliced: bool,
) -> ValueId {
    let (slices, last) = (form.slices(), form.body.params.len() - 1);
    let mut range = if sliced { slices.clone() } else { slices.end..last };
    let known = range
        .find(|&i| inputs[i].value == outer.value && *form.body.value(form.body.params[i]) == ty);
    if let Some(known) = known {
        return form.body.params[known];
    }
    let at = if sliced { slices.end } else { last };
    let param = form.body.define(ty);
    form.body.params.insert(at, param);
    inputs.insert(at, outer.clone());
    form.sliced += usize::from(sliced);
    param
}
