//! A loop on one processor.
#![allow(unsafe_code, reason = "moves values between rounds")]

use super::comm::courier::Peers;
use super::comm::{Comm, Stopped};
use super::cpu::Memory;
use super::executor::Action;
use super::prepare::{Preparing, expect, pointers};
use super::watch::Watch;
use crate::program::{ALIGNMENT, Place, Plan, Program, Rounds, ValueId, is_stack};
use std::ops::Range;

/// Bytes that are copied as they are.
pub(super) struct Span {
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
    pub(super) bytes: usize,
}

impl Span {
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
/// place in every round, or in the body's own memory. So whatever copies between the two looks up
/// in every round where the value lies.
pub(super) struct Repeat {
    /// With the step of the body each comes from.
    pub(super) actions: Vec<(usize, Action)>,
    pub(super) memory: Memory,
    pub(super) count: usize,
    pub(super) reverse: bool,
    /// Whether there is a first round, and the body's value that says whether there is another:
    /// bools.
    pub(super) condition: Option<(*const u8, usize)>,
    pub(super) position: *mut i32,
    /// What is carried into the first round.
    pub(super) first: Vec<Span>,
    /// Values that lie where the loop has them, and that is elsewhere in every round.
    pub(super) moving: Vec<Part>,
    /// What a round is given in the body's own memory.
    pub(super) given: Vec<Part>,
    /// What a round leaves elsewhere than where the loop has it: first what is stacked, then what is
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
            self.first.iter().for_each(|span| span.copy());
            let mut go_on = self.condition.is_none_or(|(first, _)| *first != 0);
            let mut round = 0;
            while go_on && round < self.count {
                let position = if self.reverse { self.count - 1 - round } else { round };
                self.position.write(position as i32);
                for part in &self.moving {
                    self.memory.pointers[part.value] = part.at(position);
                }
                for part in &self.given {
                    let (from, to) = (part.at(position), self.memory.pointers[part.value]);
                    Span { from, to, bytes: part.bytes }.copy();
                }
                watch.round(position, &self.memory);
                for (step, action) in &mut self.actions {
                    watch.step(*step, action, peers, &self.memory, scratch)?;
                }
                go_on = self.condition.is_none_or(|(_, again)| *self.memory.pointers[again] != 0);
                for part in &self.left {
                    let (from, to) = (self.memory.pointers[part.value], part.at(position));
                    Span { from, to, bytes: part.bytes }.copy();
                }
                round += 1;
            }
        }
        Ok(())
    }
}

impl Preparing<'_> {
    /// A loop, whose verified body has its own arena behind this program's.
    pub(super) fn repeat(
        &self,
        rounds: &Rounds,
        plan: &Plan,
        peers: &mut Peers<impl Comm>,
    ) -> Result<(Repeat, usize), String> {
        let Rounds { body, count, reverse, condition, carried, outs, .. } = rounds;
        self.fits(rounds)?;
        let base = self.base + self.plan.own_bytes();
        let mut memory = Memory { pointers: pointers(body, plan, self.target, base)? };
        let (given, left) = (self.given(rounds), self.left(rounds));
        let moving = settle(plan, body, &given, &left, &mut memory)?;
        let elsewhere = |part: &Part| memory.pointers[part.value] != part.first;
        let (stacks, next): (Vec<_>, Vec<_>) =
            left.into_iter().enumerate().partition(|(i, _)| *i >= carried.len());
        let left = stacks.into_iter().chain(next).map(|(_, part)| part).filter(elsewhere).collect();
        let given = given.into_iter().filter(elsewhere).collect();
        let begin = |(&from, &to): (&ValueId, &ValueId)| Span {
            from: self.at(from),
            to: self.at(to),
            bytes: self.value(to).bytes(),
        };
        let goes = body.fetches.last().map(|slot| slot.value.index());
        let last = body.feeds.last().ok_or("its body has no position")?;
        let position = memory.pointers[last.value.index()].cast();
        let inner = Preparing { program: body, plan, target: self.target, memory: &memory, base };
        let (actions, scratch) = inner.actions(peers)?;
        let repeat = Repeat {
            count: *count,
            reverse: *reverse,
            condition: condition.map(|id| self.at(id).cast_const()).zip(goes),
            position,
            first: carried.iter().zip(outs).map(begin).collect(),
            moving,
            given,
            left,
            actions,
            memory,
        };
        Ok((repeat, scratch))
    }

    /// What the body is fed, but for the position.
    fn given(&self, rounds: &Rounds) -> Vec<Part> {
        let slots = rounds.body.feeds.iter().zip(given(rounds)).enumerate();
        let parts = slots.map(|(i, (slot, outer))| {
            self.part(rounds, slot.value, outer, slices(rounds).contains(&i))
        });
        parts.collect()
    }

    /// What the body fetches, but for whether to go on.
    fn left(&self, rounds: &Rounds) -> Vec<Part> {
        let slots = rounds.body.fetches.iter().zip(&rounds.outs).enumerate();
        let stacked = |i: usize| i >= rounds.carried.len();
        slots.map(|(i, (slot, &out))| self.part(rounds, slot.value, out, stacked(i))).collect()
    }

    fn part(&self, rounds: &Rounds, value: ValueId, outer: ValueId, moves: bool) -> Part {
        let bytes = rounds.body.value(value).bytes();
        let stride = if moves { bytes } else { 0 };
        Part { value: value.index(), bytes, first: self.at(outer), stride }
    }

    /// Whether what the body is given and gives fits what the loop has.
    fn fits(&self, rounds: &Rounds) -> Result<(), String> {
        let Rounds { body, count, condition, carried, sliced, captured, outs, .. } = rounds;
        let fed = carried.len() + sliced.len() + captured.len() + 1;
        expect(body.feeds.len() == fed, "its feeds")?;
        expect(body.fetches.len() == outs.len() + usize::from(condition.is_some()), "its fetches")?;
        for (i, (outer, slot)) in given(rounds).zip(&body.feeds).enumerate() {
            let (outer, inner) = (self.value(outer), body.value(slot.value));
            let fits = match slices(rounds).contains(&i) {
                true => is_stack(outer, inner, *count),
                false => outer == inner,
            };
            expect(fits, "a feed does not fit")?;
        }
        for (i, (&out, slot)) in outs.iter().zip(&body.fetches).enumerate() {
            let (outer, inner) = (self.value(out), body.value(slot.value));
            let fits = match i < carried.len() {
                true => outer == inner,
                false => is_stack(outer, inner, *count),
            };
            expect(fits, "a fetch does not fit")?;
        }
        Ok(())
    }
}

/// Points values of the body at the loop's own; gives those that move on. The position lies in the
/// body's own memory.
fn settle(
    plan: &Plan,
    body: &Program,
    given: &[Part],
    left: &[Part],
    memory: &mut Memory,
) -> Result<Vec<Part>, String> {
    let mut moving = Vec::new();
    for (value, place) in plan.places.iter().enumerate() {
        let part = match *place {
            Place::Fed(i) => given.get(i),
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
    let position = body.feeds.last().map(|slot| plan.places[slot.value.index()]);
    expect(matches!(position, Some(Place::Arena(_))), "the position is not the body's own")?;
    Ok(moving)
}

/// What the feeds of a body stand for, but for the position. What is carried lives in the loop's outs.
fn given(rounds: &Rounds) -> impl Iterator<Item = ValueId> {
    let Rounds { carried, sliced, captured, outs, .. } = rounds;
    outs.iter().take(carried.len()).chain(sliced).chain(captured).copied()
}

/// The feeds that are slices.
fn slices(rounds: &Rounds) -> Range<usize> {
    rounds.carried.len()..rounds.carried.len() + rounds.sliced.len()
}
