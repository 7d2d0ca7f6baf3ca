//! The body of a loop.

use super::{Builder, Extents, Program, Slot, Step, Value, ValueId};
use crate::names::DType;
use smallvec::SmallVec;

/// What a [`Step::Loop`] runs.
///
/// The body is fed, in this order: what is carried from round to round, a slice of each of
/// `sliced`, the `captured` values, and the round's position, an i32. It fetches: what the next
/// round carries, what is stacked, and under a condition whether there is a next round.
#[derive(Clone, PartialEq, Debug)]
pub struct Rounds {
    /// Without reads and writes; its slots are whole local values.
    pub body: Program,
    /// Number of rounds; under a condition the most.
    pub count: usize,
    /// Positions fall from `count - 1` to 0 instead of rising from 0.
    pub reverse: bool,
    /// Whether there is a first round: a bool. Without, there are `count` rounds.
    pub condition: Option<ValueId>,
    /// What the first round carries.
    pub carried: Vec<ValueId>,
    /// Values that are `count` slices one after the other; see [`is_stack`].
    pub sliced: Vec<ValueId>,
    /// The same in all rounds.
    pub captured: Vec<ValueId>,
    /// What the last round left to carry, then what was stacked (see [`is_stack`]); zeros where no
    /// round came.
    pub outs: SmallVec<[ValueId; 1]>,
}

impl Rounds {
    /// Number of values that are stacked.
    pub fn stacked(&self) -> usize {
        self.outs.len() - self.carried.len()
    }

    /// Number of rounds for cost estimates; under a condition nobody knows, so one.
    pub fn expected(&self) -> usize {
        if self.condition.is_some() { 1 } else { self.count }
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = &ValueId> {
        self.carried.iter().chain(&self.sliced).chain(&self.captured).chain(&self.condition)
    }

    pub(super) fn inputs_mut(&mut self) -> impl Iterator<Item = &mut ValueId> {
        let Self { carried, sliced, captured, condition, .. } = self;
        carried.iter_mut().chain(sliced).chain(captured).chain(condition)
    }
}

impl Builder<'_> {
    /// Runs a body again and again; the outs, which `rounds` need not have yet, are defined here.
    pub fn rounds(&mut self, mut rounds: Rounds) -> SmallVec<[ValueId; 1]> {
        let fetched = |(i, slot): (usize, &Slot)| {
            let value = rounds.body.value(slot.value);
            let stacks = (i >= rounds.carried.len()).then_some(rounds.count);
            (value.dtype, stacks.into_iter().chain(value.extents.iter().copied()).collect())
        };
        let flag = usize::from(rounds.condition.is_some());
        let count = rounds.body.fetches.len() - flag;
        let types: Vec<(DType, Extents)> =
            rounds.body.fetches.iter().take(count).enumerate().map(fetched).collect();
        let outs: SmallVec<[_; 1]> =
            types.into_iter().map(|(dtype, extents)| self.define(dtype, extents)).collect();
        rounds.outs = outs.clone();
        self.push(Step::Loop(Box::new(rounds)));
        outs
    }
}

/// Whether a value is `count` slices like `slice`, one after the other. The slice either lacks the
/// first dim, of size `count`; or it is a tile: as dims lie in memory, of size 1 along the outermost
/// ones, an equal part of the next, and whole along the rest. Both lie in the same order, since slices
/// are stretches of memory.
pub fn is_stack(value: &Value, slice: &Value, count: usize) -> bool {
    let fits = if value.order.len() == slice.order.len() {
        value.order == slice.order && is_tile(value, slice) && value.len() == count * slice.len()
    } else {
        let behind = value.order.iter().skip(1).map(|&dim| dim.wrapping_sub(1));
        value.order.first() == Some(&0)
            && behind.eq(slice.order.iter().copied())
            && value.extents[0] == count
            && value.extents[1..] == slice.extents[..]
    };
    fits && value.dtype == slice.dtype
}

/// Whether a slice of the same rank and order is a tile.
fn is_tile(value: &Value, slice: &Value) -> bool {
    let lies = |value: &Value| -> Extents {
        value.order.iter().map(|&dim| value.extents[usize::from(dim)]).collect()
    };
    let (whole, part) = (lies(value), lies(slice));
    let ones = part.iter().take_while(|&&extent| extent == 1).count();
    let cut = (ones + 1).min(part.len());
    let fits = whole[..cut].iter().zip(&part).all(|(all, part)| all % part == 0);
    fits && whole[cut..] == part[cut..]
}
