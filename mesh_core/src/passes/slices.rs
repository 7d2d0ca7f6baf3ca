//! Slices that only maps read are not copied: the maps read a part of what the slice is of.
//!
//! What a slice is of then lives until the last of these maps. That is not worth the copy where the maps come long
//! after, or where it is the old value of a variable, in whose place the new one is made before the last of them, unless it
//! lives as long anyway.

use super::dead;
use super::uses::Uses;
use crate::program::{Block, Form, Offset, Step, ValueId};

/// Steps from a slice to the last that reads it, at most, if what it is of is not needed by then.
const NEAR: usize = 16;

pub(super) fn run(block: &mut Block) {
    let uses = Uses::new(block);
    for position in 0..block.steps.len() {
        let Some(slice) = Slice::of(block, &uses, position) else { continue };
        for &user in &uses.users[slice.out.index()] {
            slice.read_by(&mut block.steps[user]);
        }
    }
    dead::run(block);
}

struct Slice {
    out: ValueId,
    /// What it is of.
    whole: ValueId,
    begin: Vec<Offset>,
}

impl Slice {
    /// The slice that a step makes, if its readers can do without.
    fn of(block: &Block, uses: &Uses, position: usize) -> Option<Self> {
        let step = &block.steps[position];
        let (Form::Move(form), [input], [out]) = (&step.form, &step.inputs[..], &step.outs[..])
        else {
            return None;
        };
        let [piece] = &form.pieces[..] else { return None };
        let (from, to) = (block.value(input.value), block.value(*out));
        let is_slice = input.is_whole() && from.order == to.order && piece.extents == to.extents;
        let users = &uses.users[out.index()];
        let is_map = |&user: &usize| matches!(block.steps[user].form, Form::Map(_));
        if !is_slice || uses.fetched[out.index()] || !users.iter().all(is_map) {
            return None;
        }
        let last = *users.last()?;
        let is_near = last - position <= NEAR && !is_replaced(block, uses, input.value, last);
        let begin = piece.begin.clone();
        (is_near || uses.last(input.value) >= last).then_some(Self {
            out: *out,
            whole: input.value,
            begin,
        })
    }

    /// A map reads a part of the whole instead.
    fn read_by(&self, step: &mut Step) {
        let Form::Map(map) = &mut step.form else { return };
        map.begin.resize(step.inputs.len(), Vec::new());
        for (input, begin) in step.inputs.iter_mut().zip(&mut map.begin) {
            if input.value == self.out {
                input.value = self.whole;
                begin.clone_from(&self.begin);
            }
        }
    }
}

/// Whether a value is that of a variable whose new value may be made before a step has run.
fn is_replaced(block: &Block, uses: &Uses, value: ValueId, last: usize) -> bool {
    let maker = uses.maker[value.index()].map(|maker| &block.steps[maker].form);
    let Some(Form::Read(read)) = maker else { return false };
    let is_early = |step: &Step| match &step.form {
        Form::Write(form) if form.variable == read.variable => {
            uses.maker[step.inputs[0].value.index()].is_none_or(|maker| maker <= last)
        }
        _ => false,
    };
    block.steps.iter().any(is_early)
}
