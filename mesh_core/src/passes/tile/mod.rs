//! Chains of steps whose intermediate values are large are done tile by tile, so that those stay in
//! cache and are never whole anywhere: softmax, norms, cross-entropy, attention.
//!
//! A group of steps, each of which goes its own way along its first dims, becomes a loop whose rounds
//! are the tiles of those dims. What the group is given and gives is sliced and stacked where it lies.
//! A sum over the first dims becomes a sum of the tiles' sums. Steps near each other join if they read
//! each other's results or the same values; what needs the group's results, but cannot join, waits
//! until behind the loop. It pays if the values that vanish inside are large.

mod body;
mod ways;

use super::compact;
use super::uses::Uses;
use crate::names::Mesh;
use crate::program::{Program, Step, ValueId};
use ways::ways;

/// Which tiles pay.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes that have to vanish.
    pub(super) worth: usize,
    /// The most bytes that a tile meets.
    pub(super) tile: usize,
}

/// What fits the second cache anyway gains nothing, and half of it is for a tile.
const LIMITS: Limits = Limits { worth: 256 << 10, tile: 512 << 10 };
/// Steps that are looked at behind the first of a group.
const REACH: usize = 64;
/// Steps that may have to wait for the group.
const WAITING: usize = 8;

pub(super) fn run(program: &mut Program, _: &Mesh) {
    run_within(program, LIMITS);
}

pub(super) fn run_within(program: &mut Program, limits: Limits) {
    let mut position = 0;
    let mut uses = Uses::new(program);
    while position < program.steps.len() {
        let tiles = Group::from(program, &uses, position).and_then(|group| group.tiles(limits));
        position += 1;
        if let Some(tiles) = tiles {
            position = body::replace(program, &uses, &tiles);
            uses = Uses::new(program);
        }
    }
    compact(program);
}

/// Steps that can be tiled together, and those between them that need their results.
struct Group<'p> {
    program: &'p Program,
    uses: &'p Uses,
    members: Vec<usize>,
    waiting: Vec<usize>,
}

/// What a group is done in.
struct Tiles {
    members: Vec<usize>,
    waiting: Vec<usize>,
    /// Sizes of a tile along the first dims.
    extents: Vec<usize>,
    count: usize,
}

impl<'p> Group<'p> {
    /// Grows a group from its first step.
    fn from(program: &'p Program, uses: &'p Uses, first: usize) -> Option<Self> {
        let node = program.steps.get(first)?;
        let sizes = ways(program, &node.step, 1)?.sizes;
        let mut group = Self { program, uses, members: vec![first], waiting: Vec::new() };
        let end = program.steps.len().min(first + REACH);
        for (position, next) in program.steps.iter().enumerate().take(end).skip(first + 1) {
            let fits = next.owners == node.owners
                && ways(program, &next.step, 1).is_some_and(|ways| ways.sizes == sizes);
            let inputs = next.step.inputs();
            let needs = |of: &[usize]| inputs.iter().any(|&input| group.made_by(of, input));
            if needs(&group.waiting) {
                group.waiting.push(position);
            } else if fits && group.takes(&next.step) {
                group.members.push(position);
            } else if needs(&group.members) {
                group.waiting.push(position);
            }
            if group.waiting.len() > WAITING {
                break;
            }
        }
        let last = *group.members.last()?;
        group.waiting.retain(|&waiting| waiting < last);
        (group.members.len() > 1).then_some(group)
    }

    fn made_by(&self, steps: &[usize], value: ValueId) -> bool {
        self.uses.maker[value.index()].is_some_and(|maker| steps.contains(&maker))
    }

    fn steps(&self) -> impl Iterator<Item = &'p Step> {
        let program = self.program;
        self.members.iter().map(|&position| &program.steps[position].step)
    }

    /// Whether a step reads what the group makes, all of it tile by tile, or at least what the group
    /// reads as well.
    fn takes(&self, step: &Step) -> bool {
        let Some(own) = ways(self.program, step, 1) else { return false };
        let inputs = step.inputs();
        let mut joined = false;
        for (&input, &tiled) in inputs.iter().zip(&own.tiled) {
            let maker = self.uses.maker[input.index()].filter(|maker| self.members.contains(maker));
            if let Some(maker) = maker {
                let made = ways(self.program, &self.program.steps[maker].step, 1);
                if !tiled || made.is_none_or(|made| made.partial) {
                    return false;
                }
                joined = true;
            }
            let users = &self.uses.users[input.index()];
            joined |= tiled && users.iter().any(|user| self.members.contains(user));
        }
        joined
    }

    /// The tiles of a group that gains by them: the largest that are small enough.
    fn tiles(self, limits: Limits) -> Option<Tiles> {
        let bytes = |value: &ValueId| self.program.value(*value).bytes();
        let made: Vec<ValueId> = self.steps().flat_map(Step::outs).collect();
        let vanishing = made.iter().filter(|value| !self.is_given(**value));
        if vanishing.map(bytes).sum::<usize>() < limits.worth {
            return None;
        }
        let mut met = self.met();
        met.sort_unstable();
        met.dedup();
        let total: usize = met.iter().map(bytes).sum();
        let levels = (1..).map_while(|depth| self.sizes(depth));
        let tiles = levels.flat_map(|sizes| cuts(&sizes));
        let (extents, count) = tiles
            .into_iter()
            .find(|(_, count)| total / count <= limits.tile)
            .filter(|(_, n)| *n > 1)?;
        let Self { members, waiting, .. } = self;
        Some(Tiles { members, waiting, extents, count })
    }

    /// Whether a value is fetched, or read outside the group.
    fn is_given(&self, value: ValueId) -> bool {
        let users = &self.uses.users[value.index()];
        self.uses.fetched[value.index()] || users.iter().any(|user| !self.members.contains(user))
    }

    /// What a tile meets a part of.
    fn met(&self) -> Vec<ValueId> {
        let of_step = |step: &'p Step| {
            let ways = ways(self.program, step, 1);
            let (tiled, partial) = ways.map_or_else(Default::default, |w| (w.tiled, w.partial));
            let inputs = step.inputs().into_iter().zip(tiled).filter(|(_, tiled)| *tiled);
            let outs = step.outs().into_iter().filter(move |_| !partial);
            inputs.map(|(input, _)| input).chain(outs).collect::<Vec<_>>()
        };
        self.steps().flat_map(of_step).collect()
    }

    /// The sizes of the first `depth` dims, if all steps can be tiled along them.
    fn sizes(&self, depth: usize) -> Option<Vec<usize>> {
        let mut sizes = self.steps().map(|step| ways(self.program, step, depth));
        let first = sizes.next()??.sizes;
        sizes.all(|ways| ways.is_some_and(|ways| ways.sizes == first)).then(|| first.to_vec())
    }
}

/// Tiles that cut the last of the dims and have size 1 along those before, largest first, with their
/// number.
fn cuts(sizes: &[usize]) -> Vec<(Vec<usize>, usize)> {
    let Some((&last, outer)) = sizes.split_last() else { return Vec::new() };
    let tile = |part: usize| {
        let extents = outer.iter().map(|_| 1).chain([last / part]).collect();
        (extents, outer.iter().product::<usize>() * part)
    };
    (1..=last).filter(|part| last.is_multiple_of(*part)).map(tile).collect()
}
