//! A loop on one processor.
#![allow(unsafe_code, reason = "moves values between rounds")]

use super::comm::{Comm, Stopped};
use super::courier::Peers;
use super::cpu::Memory;
use super::executor::Action;
use super::prepare::{Preparing, expect, pointers};
use super::watch::Watch;
use crate::program::{ALIGNMENT, Place, Plan, Rounds, ValueId, is_stack};
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
    /// Both are good for the bytes and apart, or one.
    unsafe fn copy(&self) {
        if self.from != self.to.cast_const() {
            // SAFETY: as stated.
            unsafe { std::ptr::copy_nonoverlapping(self.from, self.to, self.bytes) };
        }
    }
}

/// A value of the body that lies elsewhere in every round.
pub(super) struct Moving {
    pub(super) value: usize,
    /// Where it lies at position 0.
    pub(super) from: *mut u8,
    pub(super) bytes: usize,
}

/// A prepared loop. What is carried lives in the loop's outs, where the body's feeds for it, and for
/// what is captured, point as well.
pub(super) struct Repeat {
    /// With the step of the body each comes from.
    pub(super) actions: Vec<(usize, Action)>,
    pub(super) memory: Memory,
    pub(super) count: usize,
    pub(super) reverse: bool,
    /// Bools: whether there is a first round, and after each whether there is another.
    pub(super) condition: Option<(*const u8, *const u8)>,
    pub(super) position: *mut i32,
    /// What is carried into the first round.
    pub(super) first: Vec<Span>,
    pub(super) moving: Vec<Moving>,
    /// Slices that are copied; `from` is the one at position 0.
    pub(super) slices: Vec<Span>,
    /// What is copied onto stacks; `to` is the place of position 0.
    pub(super) stacks: Vec<Span>,
    /// From a round's results to what the next one carries.
    pub(super) next: Vec<Span>,
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
        // bool is one byte that a step has written.
        unsafe {
            self.first.iter().for_each(|span| span.copy());
            let mut go_on = self.condition.is_none_or(|(first, _)| *first != 0);
            let mut round = 0;
            while go_on && round < self.count {
                let position = if self.reverse { self.count - 1 - round } else { round };
                self.position.write(position as i32);
                for Moving { value, from, bytes } in &self.moving {
                    self.memory.pointers[*value] = from.add(position * bytes);
                }
                for Span { from, to, bytes } in &self.slices {
                    from.add(position * bytes).copy_to_nonoverlapping(*to, *bytes);
                }
                watch.round(position, &self.memory);
                for (step, action) in &mut self.actions {
                    watch.step(*step, action, peers, &self.memory, scratch)?;
                }
                go_on = self.condition.is_none_or(|(_, again)| *again != 0);
                for Span { from, to, bytes } in &self.stacks {
                    from.copy_to_nonoverlapping(to.add(position * bytes), *bytes);
                }
                self.next.iter().for_each(|span| span.copy());
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
        let Rounds { body, count, reverse, condition, carried, .. } = rounds;
        self.fits(rounds)?;
        let base = self.base + self.plan.own_bytes();
        let mut memory = Memory { pointers: pointers(body, plan, self.target, base)? };
        let moving = self.moving(rounds, plan, &mut memory)?;
        let at = |value: ValueId| memory.pointers[value.index()];
        let fed = |i: usize| body.feeds[i].value;
        let span = |from: *const u8, to, value: ValueId| {
            let bytes = body.value(value).bytes();
            Span { from, to, bytes }
        };
        let is_here = |value: ValueId| matches!(plan.places[value.index()], Place::Arena(_));
        let slices = rounds.sliced.iter().zip(slices(rounds));
        let slices = slices.filter(|&(_, i)| is_here(fed(i)));
        let slices = slices.map(|(&from, i)| span(self.at(from), at(fed(i)), fed(i))).collect();
        let results = || {
            let fetches = body.fetches.iter().map(|slot| slot.value);
            fetches
                .zip(&rounds.outs)
                .map(|(value, &out)| (value, span(at(value), self.at(out), value)))
        };
        let put = |value: ValueId| matches!(plan.places[value.index()], Place::Stacked(_));
        let stacks = results().skip(carried.len()).filter(|(value, _)| !put(*value));
        let begin = |(&from, &to): (&ValueId, &ValueId)| Span {
            from: self.at(from),
            to: self.at(to),
            bytes: self.value(to).bytes(),
        };
        let goes = body.fetches.last().map(|slot| at(slot.value).cast_const());
        let inner = Preparing { program: body, plan, target: self.target, memory: &memory, base };
        let (actions, scratch) = inner.actions(peers)?;
        let repeat = Repeat {
            count: *count,
            reverse: *reverse,
            condition: condition.map(|id| self.at(id).cast_const()).zip(goes),
            position: at(fed(body.feeds.len() - 1)).cast(),
            first: carried.iter().zip(&rounds.outs).map(begin).collect(),
            moving,
            slices,
            stacks: stacks.map(|(_, span)| span).collect(),
            next: results().take(carried.len()).map(|(_, span)| span).collect(),
            actions,
            memory,
        };
        Ok((repeat, scratch))
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

    /// Points values of the body at the loop's own; gives those that move on.
    fn moving(
        &self,
        rounds: &Rounds,
        plan: &Plan,
        memory: &mut Memory,
    ) -> Result<Vec<Moving>, String> {
        let given: Vec<_> = given(rounds).collect();
        let mut moving = Vec::new();
        for (value, place) in plan.places.iter().enumerate() {
            let (outer, moves) = match *place {
                Place::Fed(i) => (given.get(i), slices(rounds).contains(&i)),
                Place::Stacked(i) => (rounds.outs.get(i), true),
                _ => continue,
            };
            let from = self.at(*outer.ok_or("a value is in nothing of its loop")?);
            memory.pointers[value] = from;
            let bytes = rounds.body.values[value].bytes();
            if moves {
                expect(bytes.is_multiple_of(ALIGNMENT), "a slice is not aligned")?;
                moving.push(Moving { value, from, bytes });
            }
        }
        Ok(moving)
    }
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
