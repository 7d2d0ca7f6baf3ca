//! Maps over the same elements become one, so that what passes between them stays in registers.
//!
//! * *Views* and what else is not worth keeping is computed where it is read; see [`views`].
//! * *Chains*: a map and a map that reads it, over the same elements, are one. What others read of
//!   the first is still stored.
//! * *Siblings*: two maps that meet an input in the same way read it once.
//!
//! The first of two maps moves behind whatever stands between it and the second, or the second moves
//! up to the first, if who else reads what they make and what they read allows it, and if neither
//! makes more memory live in between. Bits stay as they are: bf16 is rounded where it was stored.

mod views;

use super::uses::Uses;
use super::weave::Weave;
use super::{Machine, compact, writes_last};
use crate::program::forms::Map;
use crate::program::{Block, Body, Dims, Form, Operand, Origin, Step, ValueId};
use smallvec::SmallVec;

/// Instructions of a body, beyond which tiles do not stay in the first cache anyway.
const LONGEST: usize = 128;
/// Inputs and outs of a map.
const WIDEST: usize = 24;
/// Bytes that may live longer for nothing, and which part of what need not be made.
const SLACK: usize = 1 << 10;
const PART: usize = 128;

pub(super) fn run(block: &mut Block, machine: &Machine) {
    views::run(block, machine);
    // A write takes effect at the end of the call: it holds nothing back.
    writes_last(block);
    let mut fusing = Fusing::new(block);
    // What has merged may stand in nobody's way any more.
    while fusing.sweep() {}
    let gone = std::mem::take(&mut fusing.gone);
    let mut gone = gone.iter();
    block.steps.retain(|_| gone.next() != Some(&true));
    compact(block);
}

struct Fusing<'p> {
    block: &'p mut Block,
    /// Steps that have been merged into others.
    gone: Vec<bool>,
    uses: Uses,
}

/// The parts of a map.
#[derive(Clone, Copy)]
struct Parts<'a> {
    body: &'a Body,
    inputs: &'a [Operand],
    outs: &'a [ValueId],
}

impl<'p> Fusing<'p> {
    fn new(block: &'p mut Block) -> Self {
        let (gone, uses) = (vec![false; block.steps.len()], Uses::new(block));
        Self { block, gone, uses }
    }

    fn parts(&self, position: usize) -> Option<Parts<'_>> {
        let Step { form, inputs, outs, .. } = &self.block.steps[position];
        match form {
            Form::Map(map) if !self.gone[position] && map.reads_all() => {
                Some(Parts { body: &map.body, inputs, outs })
            }
            _ => None,
        }
    }

    /// Merges what can be merged; says whether anything could.
    fn sweep(&mut self) -> bool {
        let merged = (0..self.gone.len()).filter(|&position| self.chain(position));
        merged.count() > 0
    }

    /// Merges the map at a position as often as can be; says whether it could be.
    fn chain(&mut self, position: usize) -> bool {
        let mut at = self.once(position);
        let merged = at.is_some();
        while let Some(position) = at {
            at = self.once(position);
        }
        merged
    }

    /// Merges the map at a position with another, if there is one; says where it stands then.
    fn once(&mut self, at: usize) -> Option<usize> {
        let map = self.parts(at)?;
        let chains = map.inputs.iter().filter_map(|input| {
            let maker = self.uses.maker[input.value.index()]?;
            Some((maker, Dims::from_slice(&input.dims)))
        });
        let siblings = map.inputs.iter().flat_map(|input| {
            let others =
                self.uses.users[input.value.index()].iter().rev().filter(|&&user| user < at);
            others.take(8).filter_map(|&user| {
                let theirs = self.parts(user)?.inputs.iter();
                let met = theirs.into_iter().find(|theirs| theirs.value == input.value)?;
                Some((user, turned(&met.dims, &input.dims)?))
            })
        });
        let candidates: SmallVec<[_; 8]> = chains.chain(siblings).collect();
        candidates.into_iter().find_map(|(first, labels)| self.merge(first, at, &labels))
    }

    /// Merges the maps at two positions; `labels[i]` is what label `i` of the first is in the second.
    fn merge(&mut self, first: usize, second: usize, labels: &[u8]) -> Option<usize> {
        let (one, two) = (self.parts(first)?, self.parts(second)?);
        let steps = &self.block.steps;
        let extents = |parts: Parts<'_>| &self.block.value(parts.outs[0]).extents;
        let (theirs, ours) = (extents(one), extents(two));
        let covers = labels.len() == ours.len() && theirs.len() == ours.len();
        let same =
            covers && theirs.iter().zip(labels).all(|(n, &l)| ours.get(usize::from(l)) == Some(n));
        if !same || steps[first].owners != steps[second].owners {
            return None;
        }
        let at = self.place(first, second)?;
        let declared = labels.iter().enumerate().all(|(i, &label)| i == usize::from(label));
        let kept: SmallVec<[ValueId; 4]> =
            one.outs.iter().copied().filter(|&out| self.is_kept(out, second)).collect();
        if !kept.is_empty() && !declared {
            return None;
        }
        let fused = self.woven(one, two, labels, &kept)?;
        self.replace([first, second], at, fused);
        Some(at)
    }

    /// Whether somebody needs a value besides the step at a position.
    fn is_kept(&self, value: ValueId, besides: usize) -> bool {
        self.uses.fetched[value.index()]
            || self.uses.users[value.index()].iter().any(|&user| user != besides)
    }

    /// Where two maps can stand as one.
    fn place(&self, first: usize, second: usize) -> Option<usize> {
        let (one, two) = (self.parts(first)?, self.parts(second)?);
        let bytes = |values: &mut dyn Iterator<Item = ValueId>| -> usize {
            values.map(|value| self.bytes(value)).sum()
        };
        let made = bytes(&mut one.outs.iter().copied());
        let down =
            one.outs.iter().all(|out| self.uses.users[out.index()].iter().all(|&u| u >= second));
        let held = one.inputs.iter().map(|input| input.value);
        let held = bytes(&mut held.filter(|&value| self.uses.last(value) < second));
        if down && held <= made + SLACK.max(made / PART) {
            return Some(second);
        }
        let ready = |input: &Operand| {
            one.outs.contains(&input.value)
                || self.uses.maker[input.value.index()].is_none_or(|maker| maker < first)
        };
        let freed = two.inputs.iter().map(|input| input.value);
        let freed = bytes(&mut freed.filter(|&value| self.uses.last(value) <= second));
        let more = bytes(&mut two.outs.iter().copied());
        let up = two.inputs.iter().all(ready) && more <= freed + SLACK;
        up.then_some(first)
    }

    /// Bytes that a value takes in the arena; a variable's own are there anyway.
    fn bytes(&self, value: ValueId) -> usize {
        let maker = self.uses.maker[value.index()].map(|maker| &self.block.steps[maker].form);
        if matches!(maker, Some(Form::Read(_))) { 0 } else { self.block.value(value).bytes() }
    }

    /// Both maps in the labels of the second.
    fn woven(
        &self,
        one: Parts<'_>,
        two: Parts<'_>,
        labels: &[u8],
        kept: &[ValueId],
    ) -> Option<Fused> {
        let mut weave = Weave::default();
        let regs = one.inputs.iter().map(|input| {
            let dims = input.dims.iter().map(|&label| labels[usize::from(label)]).collect();
            weave.input(&self.block.values, Operand { value: input.value, dims })
        });
        let regs: Vec<_> = regs.collect();
        let made = weave.append(one.body, &regs);
        let regs = two.inputs.iter().map(|input| {
            let Some(position) = one.outs.iter().position(|&out| out == input.value) else {
                return Some(weave.input(&self.block.values, input.clone()));
            };
            // Read in another way than the one in which they are merged, it is needed whole.
            (input.dims[..] == *labels).then(|| weave.stored(made[position]))
        });
        let regs = regs.collect::<Option<Vec<_>>>()?;
        let results = weave.append(two.body, &regs);
        let of_first = one.outs.iter().zip(made).filter(|(out, _)| kept.contains(out));
        let all: Vec<_> = of_first.chain(two.outs.iter().zip(results)).collect();
        let results: Vec<_> = all.iter().map(|(_, reg)| *reg).collect();
        let (body, inputs) = weave.finish(&results);
        let outs = all.into_iter().map(|(&out, _)| out).collect::<SmallVec<[ValueId; 1]>>();
        let fits = body.code.len() <= LONGEST && inputs.len() + outs.len() <= WIDEST;
        fits.then_some(Fused { body, inputs, outs })
    }

    fn replace(&mut self, merged: [usize; 2], at: usize, fused: Fused) {
        let [one, two] = merged.map(|position| &self.block.steps[position]);
        let origin = Origin::merge(&one.origin, &two.origin);
        for position in merged {
            let step = &self.block.steps[position];
            for input in step.reads() {
                self.uses.users[input.index()].retain(|user| *user != position);
            }
            step.outs.iter().for_each(|out| self.uses.maker[out.index()] = None);
            self.gone[position] = position != at;
        }
        let Fused { body, inputs, outs } = fused;
        for input in &inputs {
            let users = &mut self.uses.users[input.value.index()];
            if !users.contains(&at) {
                users.push(at);
            }
        }
        outs.iter().for_each(|out| self.uses.maker[out.index()] = Some(at));
        let step = &mut self.block.steps[at];
        *step = Step { origin, ..step.instead(Map::new(body), inputs, &outs) };
    }
}

/// A map that does what two did.
struct Fused {
    body: Body,
    inputs: Vec<Operand>,
    outs: SmallVec<[ValueId; 1]>,
}

/// What the labels of one operand are in another, if they are all and the same number.
fn turned(from: &[u8], to: &[u8]) -> Option<Dims> {
    let mut labels = Dims::from_elem(u8::MAX, from.len());
    for (&from, &to) in from.iter().zip(to) {
        *labels.get_mut(usize::from(from))? = to;
    }
    (from.len() == to.len() && !labels.contains(&u8::MAX)).then_some(labels)
}
