//! The body of a loop.
//!
//! An iteration begins with what the loop gives it and ends with what it leaves. What parameter `i`
//! stands for is there from the start, in `Param(i)`; a parameter that lies in the arena is copied there
//! first. What is carried may be overwritten there once nobody reads it. At the end the loop copies, from where it lies in this iteration, each result `i` that is
//! stacked to `Stacked(i)`, and then each that is carried on to `Param(i)`, in order, unless it lies
//! there. So an iteration is right if each result is still there when its turn comes, though others have
//! been copied before. A slice may lie where the loop stacks something: both are one place then, which first holds the slice.
//!
//! Slices and stacks are in another place in every iteration. Kernels, loops and the loop's own copies look up
//! where they lie; collectives were prepared for one place and must not meet them, nor those in the body of a
//! loop that does.

use super::{Memory, Name};
use crate::passes::buffers::is_fixed;
use crate::program::forms::Loop;
use crate::program::{ALIGNMENT, Place, Step, ValueId};
use smallvec::smallvec;

impl Memory<'_> {
    /// Whether a value of a body is as large as what it lies in, and aligned in every iteration.
    pub(super) fn fits(&self, id: ValueId, place: Place) -> Result<(), String> {
        let (held, what) = match place {
            Place::Param(i) => (self.given(i), format!("parameter {i}")),
            Place::Stacked(i) => (self.stacked(i), format!("result {i}")),
            _ => (None, "nothing".to_owned()),
        };
        let Some(held) = held else {
            return Err(format!("{id:?} is in a loop's {what}, which is not there"));
        };
        let (own, bytes) = (self.block.value(id).bytes(), self.block.value(held).bytes());
        let aligned = !self.moves(place) || bytes % ALIGNMENT == 0;
        match own == bytes && aligned {
            true => Ok(()),
            false => Err(format!("{id:?} does not fit {what} of its loop")),
        }
    }

    /// A parameter that the loop has in its own memory: not the position.
    fn given(&self, i: usize) -> Option<ValueId> {
        let params = &self.block.params;
        params.get(i).copied().filter(|_| self.of_loop.is_some() && i + 1 < params.len())
    }

    fn stacked(&self, i: usize) -> Option<ValueId> {
        let stacks = self.of_loop?.stacks();
        self.block.results.get(i).copied().filter(|_| stacks.contains(&i))
    }

    /// Whether a place is another one in every iteration.
    fn moves(&self, place: Place) -> bool {
        match (place, self.of_loop) {
            (Place::Param(i), Some(of_loop)) => of_loop.slices().contains(&i),
            (Place::Stacked(_), Some(_)) => true,
            _ => false,
        }
    }

    /// The slices of a loop of this block that lie where it stacks something: parameters and results of its body.
    pub(super) fn shared(&self, step: &Step, form: &Loop) -> Vec<(usize, usize)> {
        let slices = form.slices().zip(form.inputs(step).sliced);
        let pairs = slices.flat_map(|(i, input)| {
            let stacks = form.stacks().filter_map(|j| Some((j, *step.outs.get(j)?)));
            let alike = stacks.filter(|&(_, out)| self.at(input.value) == self.at(out));
            alike.map(move |(j, _)| (i, j))
        });
        pairs.collect()
    }

    /// A parameter that is where nobody puts it.
    pub(super) fn misplaced(&self, i: usize, param: ValueId) -> Option<String> {
        let at = match self.plan.places[param.index()] {
            Place::Arena(_) => return None,
            Place::Param(other) if other == i => return None,
            Place::Param(other) => format!("where parameter {other} should be"),
            Place::Variable(variable) => format!("in {variable:?}"),
            Place::Stacked(result) => format!("where result {result} is stacked"),
        };
        Some(format!("parameter {i} is {at}"))
    }

    /// Values in places that move, met by steps that do not look where they are; outs on what the
    /// body was given and all iterations read.
    pub(super) fn moved(&self, step: &Step) -> Vec<String> {
        let fixed = is_fixed(step);
        let lost = step.values().filter(|&value| fixed && self.moves(self.at(value)));
        let lost = lost.map(|value| format!("{value:?} is in another place in every iteration"));
        let renamed = |i: usize, out: ValueId| {
            let input = step.inputs.get(i).filter(|_| step.form.renames());
            input.is_some_and(|input| self.at(input.value) == self.at(out))
        };
        let fills = |(i, out): &(usize, ValueId)| {
            let carried = self.of_loop.map_or(0, |of_loop| of_loop.carried);
            matches!(self.at(*out), Place::Param(at) if at >= carried) && !renamed(*i, *out)
        };
        let outs = step.outs.iter().copied().enumerate().filter(fills).map(|(_, out)| out);
        lost.chain(outs.map(|out| format!("{out:?} overwrites what the loop gave"))).collect()
    }

    /// What an iteration does not leave as it should.
    pub(super) fn left(&mut self) -> Vec<String> {
        let Some(of_loop) = self.of_loop else { return Vec::new() };
        let block = self.block;
        let stacks = of_loop.stacks().map(|i| (i, Place::Stacked(i)));
        let next = (0..of_loop.carried).map(|i| (i, Place::Param(i)));
        // Whether to go on is asked before anything is copied.
        let mut problems: Vec<_> =
            of_loop.again().and_then(|again| self.expect(again).err()).into_iter().collect();
        for (i, place) in stacks.chain(next) {
            let result = block.results[i];
            problems.extend(self.expect(result).err());
            if self.at(result) != place {
                self.held.insert(place, smallvec![Name::Value(result)]);
            }
        }
        problems
    }
}
