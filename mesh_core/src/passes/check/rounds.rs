//! The body of a loop.
//!
//! A round begins with what the loop gives it and ends with what it leaves. What feed `i` stands for is
//! there from the start, in `Fed(i)`; a feed that lies in the arena is copied there first. At the end
//! the loop copies, from where it lies in this round, each fetch `i` to be stacked to `Stacked(i)`, and
//! then each that is carried on to `Fed(i)`, in order, unless it lies there. So a round is right if
//! each fetch is still there when its turn comes, though others have been copied before.
//!
//! Slices and stacks are in another place in every round. Kernels and the loop's own copies look up
//! where they lie; steps that were prepared for one place must not meet them.

use super::{Memory, Name};
use crate::program::{ALIGNMENT, Place, Rounds, Slot, Step, ValueId};
use smallvec::smallvec;

impl Memory<'_> {
    /// Whether a value of a body is as large as what it lies in, and aligned in every round.
    pub(super) fn fits(&self, id: ValueId, place: Place) -> Result<(), String> {
        let (slot, what) = match place {
            Place::Fed(i) => (self.given(i), format!("feed {i}")),
            Place::Stacked(i) => (self.stacked(i), format!("fetch {i}")),
            _ => (None, "nothing".to_owned()),
        };
        let Some(Slot { value, .. }) = slot else {
            return Err(format!("{id:?} is in a loop's {what}, which is not there"));
        };
        let (own, bytes) = (self.program.value(id).bytes(), self.program.value(*value).bytes());
        let aligned = !self.moves(place) || bytes % ALIGNMENT == 0;
        match own == bytes && aligned {
            true => Ok(()),
            false => Err(format!("{id:?} does not fit {what} of its loop")),
        }
    }

    /// A feed that the loop has in its own memory: not the position.
    fn given(&self, i: usize) -> Option<&Slot> {
        let feeds = &self.program.feeds;
        feeds.get(i).filter(|_| self.rounds.is_some() && i + 1 < feeds.len())
    }

    fn stacked(&self, i: usize) -> Option<&Slot> {
        let Rounds { carried, outs, .. } = self.rounds?;
        self.program.fetches.get(i).filter(|_| (carried.len()..outs.len()).contains(&i))
    }

    /// Whether a place is another one in every round.
    fn moves(&self, place: Place) -> bool {
        let Some(Rounds { carried, sliced, .. }) = self.rounds else { return false };
        match place {
            Place::Fed(i) => (carried.len()..carried.len() + sliced.len()).contains(&i),
            Place::Stacked(_) => true,
            _ => false,
        }
    }

    /// A feed that is where nobody puts it.
    pub(super) fn misfed(&self, i: usize, slot: &Slot) -> Option<String> {
        match self.at(slot.value) {
            Place::Arena(_) => None,
            Place::Fed(feed) if feed == i => None,
            Place::Fed(feed) => Some(format!("feed {i} is where feed {feed} should be")),
            Place::Variable(variable) => Some(format!("feed {} is in {variable:?}", slot.name)),
            Place::Stacked(fetch) => Some(format!("feed {i} is where fetch {fetch} is stacked")),
        }
    }

    /// Values in places that move, met by steps that do not look where they are; outs on what the
    /// body was given.
    pub(super) fn moved(&self, step: &Step) -> Vec<String> {
        let fixed = step.axes().is_some() || matches!(step, Step::Loop(_));
        let met = step.inputs().into_iter().chain(step.outs().iter().copied());
        let lost = met.filter(|&value| fixed && self.moves(self.at(value)));
        let lost = lost.map(|value| format!("{value:?} is in another place in every round"));
        let (inputs, outs) = (step.inputs(), step.outs());
        let named = matches!(step, Step::Reshape { .. } | Step::Barrier { .. });
        let renamed = |i: usize, out: ValueId| named && self.at(inputs[i]) == self.at(out);
        let fills = |(i, out): &(usize, ValueId)| {
            matches!(self.at(*out), Place::Fed(_)) && !renamed(*i, *out)
        };
        let outs = outs.iter().copied().enumerate().filter(fills).map(|(_, out)| out);
        lost.chain(outs.map(|out| format!("{out:?} overwrites what the loop gave"))).collect()
    }

    /// What a round does not leave as it should.
    pub(super) fn left(&mut self) -> Vec<String> {
        let Some(Rounds { carried, outs, .. }) = self.rounds else { return Vec::new() };
        let (program, carried) = (self.program, carried.len());
        let stacks = (carried..outs.len()).map(|i| (i, Place::Stacked(i)));
        let next = (0..carried).map(|i| (i, Place::Fed(i)));
        // Whether to go on is asked before anything is copied.
        let flag = program.fetches.get(outs.len());
        let mut problems: Vec<_> =
            flag.and_then(|slot| self.fetch(slot).err()).into_iter().collect();
        for (i, place) in stacks.chain(next) {
            let slot = &program.fetches[i];
            problems.extend(self.fetch(slot).err());
            if self.at(slot.value) != place {
                self.held.insert(place, smallvec![Name::Value(slot.value)]);
            }
        }
        problems
    }
}
