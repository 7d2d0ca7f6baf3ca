//! A loop on one processor.
#![allow(unsafe_code, reason = "moves values between iterations")]

use super::comm::{Comm, Stopped};
use super::courier::Peers;
use super::cpu::Memory;
use super::executor::Action;
use super::prepare::{Preparing, expect, pointers};
use super::watch::Watch;
use crate::program::forms::{Loop, LoopInputs, is_stack};
use crate::program::{ALIGNMENT, Block, Operand, Place, Plan, Step, ValueId};

/// Bytes that are copied as they are.
pub(super) struct Stretch {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
    pub(super) bytes: usize,
}

impl Stretch {
    /// # Safety
    ///
    /// Both are good for the bytes, and apart or one.
    unsafe fn copy(&self) {
        if self.from != self.to.cast_const() {
            // SAFETY: as stated.
            unsafe { std::ptr::copy_nonoverlapping(self.from, self.to, self.bytes) };
        }
    }
}

/// A value of the body, and where the loop has what it stands for.
pub(super) struct Part {
    pub(super) value: usize,
    pub(super) bytes: usize,
    /// Where the loop has it at position 0.
    pub(super) first: *mut u8,
    /// Bytes from one position to the next; 0 for what is no slice and is not stacked.
    pub(super) stride: usize,
}

impl Part {
    /// Where the loop has it at a position.
    fn at(&self, position: usize) -> *mut u8 {
        self.first.wrapping_add(position * self.stride)
    }
}

/// A prepared loop. What is carried lives in the loop's outs.
///
/// A value of the body lies either where the loop has it, which for slices and stacks is another
/// place in every iteration, or in the body's own memory. So whatever copies between the two looks up
/// in every iteration where the value lies.
pub(super) struct Repeat {
    /// With the step of the body each comes from.
    pub(super) actions: Vec<(usize, Action)>,
    pub(super) memory: Memory,
    pub(super) count: usize,
    pub(super) reverse: bool,
    /// Whether there is a first iteration, and the body's value that says whether there is another:
    /// bools.
    pub(super) condition: Option<(*const u8, usize)>,
    pub(super) position: *mut i32,
    /// What is carried into the first iteration.
    pub(super) first: Vec<Stretch>,
    /// Values that lie where the loop has them, and that is elsewhere in every iteration.
    pub(super) moving: Vec<Part>,
    /// What an iteration is given in the body's own memory.
    pub(super) given: Vec<Part>,
    /// What an iteration leaves elsewhere than where the loop has it: first what is stacked, then what is
    /// carried on.
    pub(super) left: Vec<Part>,
}

impl Repeat {
    /// # Safety
    ///
    /// As [`Executor::run`](super::executor::Executor::run).
    pub(super) unsafe fn run(
        &mut self,
        peers: &mut Peers<impl Comm>,
        scratch: *mut u8,
        mut watch: Watch<'_>,
    ) -> Result<(), Stopped> {
        // SAFETY: pointers and sizes were prepared together from values that fit each other; a
        // bool is one byte that a step has written; a part's places are apart, or one.
        unsafe {
            self.first.iter().for_each(|stretch| stretch.copy());
            let mut go_on = self.condition.is_none_or(|(first, _)| *first != 0);
            let mut done = 0;
            while go_on && done < self.count {
                let position = if self.reverse { self.count - 1 - done } else { done };
                self.position.write(position as i32);
                for part in &self.moving {
                    self.memory.pointers[part.value] = part.at(position);
                }
                for part in &self.given {
                    let (from, to) = (part.at(position), self.memory.pointers[part.value]);
                    Stretch { from, to, bytes: part.bytes }.copy();
                }
                watch.iteration(position, &self.memory);
                for (step, action) in &mut self.actions {
                    watch.step(*step, action, peers, &self.memory, scratch)?;
                }
                go_on = self.condition.is_none_or(|(_, again)| *self.memory.pointers[again] != 0);
                for part in &self.left {
                    let (from, to) = (self.memory.pointers[part.value], part.at(position));
                    Stretch { from, to, bytes: part.bytes }.copy();
                }
                done += 1;
            }
        }
        Ok(())
    }
}

impl Preparing<'_> {
    /// A loop, whose verified body has its own arena behind this block's.
    pub(super) fn repeat(
        &self,
        form: &Loop,
        step: &Step,
        plan: &Plan,
        peers: &mut Peers<impl Comm>,
    ) -> Result<(Repeat, usize), String> {
        let body = &*form.body;
        self.fits(form, step)?;
        let base = self.base + self.plan.own_bytes();
        let pointers = pointers(self.name, body, plan, self.target, base)?;
        let mut memory = Memory { pointers };
        let (given, left) = (self.given(form, step), self.left(form, step));
        let moving = settle(plan, body, &given, &left, &mut memory)?;
        let elsewhere = |part: &Part| memory.pointers[part.value] != part.first;
        let (stacks, next): (Vec<_>, Vec<_>) =
            left.into_iter().enumerate().partition(|(i, _)| *i >= form.carried);
        let left = stacks.into_iter().chain(next).map(|(_, part)| part).filter(elsewhere).collect();
        let given = given.into_iter().filter(elsewhere).collect();
        let begin = |(from, &to): (&Operand, &ValueId)| Stretch {
            from: self.at(from.value),
            to: self.at(to),
            bytes: self.value(to).bytes(),
        };
        let inputs = form.inputs(step);
        let first = inputs.condition.map(|id| self.at(id).cast_const());
        let position = form.position().ok_or("its body has no position")?;
        let position = memory.pointers[position.index()].cast();
        let inner = Preparing {
            name: self.name,
            block: body,
            plan,
            target: self.target,
            memory: &memory,
            base,
        };
        let (actions, scratch) = inner.actions(peers)?;
        let repeat = Repeat {
            count: form.count,
            reverse: form.reverse,
            condition: first.zip(form.again().map(ValueId::index)),
            position,
            first: inputs.carried.iter().zip(&step.outs).map(begin).collect(),
            moving,
            given,
            left,
            actions,
            memory,
        };
        Ok((repeat, scratch))
    }

    /// What the body is given, but for the position.
    fn given(&self, form: &Loop, step: &Step) -> Vec<Part> {
        let params = form.body.params.iter().zip(given(form, step)).enumerate();
        let slices = form.slices();
        params
            .map(|(i, (&param, outer))| self.part(form, param, outer, slices.contains(&i)))
            .collect()
    }

    /// What the body leaves, but for whether to go on.
    fn left(&self, form: &Loop, step: &Step) -> Vec<Part> {
        let results = form.body.results.iter().zip(&step.outs).enumerate();
        let stacks = form.stacks();
        results
            .map(|(i, (&result, &out))| self.part(form, result, out, stacks.contains(&i)))
            .collect()
    }

    fn part(&self, form: &Loop, value: ValueId, outer: ValueId, moves: bool) -> Part {
        let bytes = form.body.value(value).bytes();
        let stride = if moves { bytes } else { 0 };
        Part { value: value.index(), bytes, first: self.at(outer), stride }
    }

    /// Whether what the body is given and gives fits what the loop has.
    fn fits(&self, form: &Loop, step: &Step) -> Result<(), String> {
        let (body, flag) = (&*form.body, usize::from(form.conditional));
        let given_count = step.inputs.len() - flag;
        expect(body.params.len() == given_count + 1, "its parameters")?;
        expect(body.results.len() == step.outs.len() + flag, "its results")?;
        let params = given(form, step).zip(&body.params).map(|(outer, &inner)| (outer, inner));
        let results = step.outs.iter().zip(&body.results).map(|(&outer, &inner)| (outer, inner));
        let params = params.enumerate().map(|(i, pair)| (form.slices().contains(&i), pair));
        let results = results.enumerate().map(|(i, pair)| (form.stacks().contains(&i), pair));
        for (moves, (outer, inner)) in params.chain(results) {
            let (outer, inner) = (self.value(outer), body.value(inner));
            let fits = if moves { is_stack(outer, inner, form.count) } else { outer == inner };
            expect(fits, "a parameter or result does not fit")?;
        }
        Ok(())
    }
}

/// Points values of the body at the loop's own; gives those that move on. The position lies in the
/// body's own memory.
fn settle(
    plan: &Plan,
    body: &Block,
    given: &[Part],
    left: &[Part],
    memory: &mut Memory,
) -> Result<Vec<Part>, String> {
    let mut moving = Vec::new();
    for (value, place) in plan.places.iter().enumerate() {
        let part = match *place {
            Place::Param(i) => given.get(i),
            Place::Stacked(i) => left.get(i).filter(|part| part.stride > 0),
            _ => continue,
        };
        let &Part { bytes, first, stride, .. } = part.ok_or("a value is in nothing of its loop")?;
        expect(body.values[value].bytes() == bytes, "a value does not fit what it lies in")?;
        memory.pointers[value] = first;
        if stride > 0 {
            expect(stride.is_multiple_of(ALIGNMENT), "a slice is not aligned")?;
            moving.push(Part { value, bytes, first, stride });
        }
    }
    let position = body.params.last().map(|param| plan.places[param.index()]);
    expect(matches!(position, Some(Place::Arena(_))), "the position is not the body's own")?;
    Ok(moving)
}

/// What the parameters of a body stand for, but for the position. What is carried lives in the loop's
/// outs.
fn given(form: &Loop, step: &Step) -> impl Iterator<Item = ValueId> {
    let LoopInputs { carried, sliced, captured, .. } = form.inputs(step);
    let others = sliced.iter().chain(captured).map(|input| input.value);
    step.outs.iter().take(carried.len()).copied().chain(others)
}
