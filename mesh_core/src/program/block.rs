//! Blocks of steps, and the programs that functions become.

use super::forms::{Await, Loop};
use super::{Form, Step, Value, ValueId};
use crate::names::{AxisList, DimName};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// Steps over values of its own: what a program runs, or a loop in each iteration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Block {
    /// Every value, defined by exactly one parameter or step.
    pub values: Vec<Value>,
    /// The steps, in the order in which they run.
    pub steps: Vec<Step>,
    /// Values that are given before the first step.
    pub params: Vec<ValueId>,
    /// Values that are taken after the last step.
    pub results: Vec<ValueId>,
    /// Values that are slices of the graph's tensors, for messages; the others lie between those. In
    /// a loop over tiles, a value may be a tile of such a slice.
    pub tensors: Vec<(ValueId, Slot)>,
}

impl Block {
    /// The type of a value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Adds a value, which a step has to define.
    pub(crate) fn define(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u32 - 1)
    }

    /// The loops among the steps, with their steps, in order.
    pub(crate) fn loops(&self) -> impl Iterator<Item = (&Step, &Loop)> {
        self.steps.iter().filter_map(|step| match &step.form {
            Form::Loop(form) => Some((step, form)),
            _ => None,
        })
    }

    /// Does something to the block and then to the bodies of its loops.
    pub(crate) fn everywhere(&mut self, run: &mut impl FnMut(&mut Self)) {
        run(self);
        for step in &mut self.steps {
            if let Form::Loop(form) = &mut step.form {
                form.body.everywhere(run);
            }
        }
    }

    /// Per value, the step that awaits it, if a collective makes it that is only begun where it stands.
    pub fn awaits(&self) -> Vec<Option<usize>> {
        let mut awaits = vec![None; self.values.len()];
        for (position, step) in self.steps.iter().enumerate() {
            let Form::Await(form) = &step.form else { continue };
            for value in form.begun(step) {
                if let Some(known) = awaits.get_mut(value.index()) {
                    known.get_or_insert(position);
                }
            }
        }
        awaits
    }

    /// Whether a loop's body may make a value where a parameter lies: it reads that no more once it begins to make the value, or
    /// by the very step that makes it and works in place; and does not result in it.
    pub(crate) fn gives_way(&self, param: ValueId, mut value: ValueId) -> bool {
        let mut names = vec![param];
        for step in self.steps.iter().filter(|step| step.form.renames()) {
            for (input, &out) in zip(step.reads(), &step.outs) {
                if names.contains(&input) {
                    names.push(out);
                }
            }
        }
        if self.results.iter().any(|result| names.contains(result)) {
            return false;
        }
        for (at, step) in self.steps.iter().enumerate().rev() {
            let Some(out) = step.outs.iter().position(|&out| out == value) else { continue };
            if step.form.renames() {
                value = step.inputs[out].value;
                continue;
            }
            let is_named = |input: &ValueId| names.contains(input);
            let mut inputs = step.reads().enumerate().filter(|(_, input)| is_named(input));
            let in_place = inputs.all(|(i, input)| {
                let lies_as = self.value(input).lies_as(self.value(value));
                lies_as && step.form.may_work_in_place(&step.inputs, out, i)
            });
            return in_place
                && !self.steps[at + 1..].iter().any(|step| step.reads().any(|id| is_named(&id)));
        }
        false
    }

    /// The await of a step of this block, a collective.
    pub(crate) fn awaiting(&self, collective: &Step) -> Step {
        Await::of(collective, |id| self.value(id).extents.len())
    }
}

/// How a value lies that crosses the border between the caller's global arrays and the processors'
/// slices.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Slot {
    /// Name of the feed or fetch.
    pub name: String,
    /// Global size of each dim.
    pub shape: Vec<usize>,
    /// Name of each dim, for errors; empty in a program that was written by hand.
    pub dims: Vec<DimName>,
    /// The mesh axes each dim is split over, major first.
    pub split: Vec<AxisList>,
    /// The user's source line, if a program is fed it.
    pub at: String,
}

/// What each processor does when a function is called.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// Name of the function.
    pub name: String,
    /// What is done.
    pub block: Block,
    /// What the block's parameters are filled from, in order: the caller's arrays.
    pub feeds: Vec<Slot>,
    /// What the block's first results are copied to, in order: the caller's arrays.
    pub fetches: Vec<Slot>,
    /// What the other results are copied to, in order: arrays that are shown to the session's watcher.
    pub probes: Vec<Slot>,
}

impl Program {
    /// The type of a value.
    pub fn value(&self, id: ValueId) -> &Value {
        self.block.value(id)
    }

    /// The steps, in the order in which they run.
    pub fn steps(&self) -> &[Step] {
        &self.block.steps
    }

    /// The feeds with their values.
    pub fn fed(&self) -> impl ExactSizeIterator<Item = (&Slot, ValueId)> + Clone {
        self.feeds.iter().zip(self.block.params.iter().copied())
    }

    /// The fetches, then the probes, with their values.
    pub fn left(&self) -> impl Iterator<Item = (&Slot, ValueId)> + Clone {
        self.fetches.iter().chain(&self.probes).zip(self.block.results.iter().copied())
    }
}
