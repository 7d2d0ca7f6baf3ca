//! Chains of steps whose intermediate values are large are done tile by tile, so that those stay in
//! cache and are never whole anywhere: softmax, norms, cross-entropy, attention.
//!
//! A group of steps, each of which can be done piece by piece along its outermost dims, becomes a loop whose iterations
//! are the tiles of those dims. What the group is given and gives is sliced and stacked where it lies.
//! A sum over these dims, or over the last of them, becomes a sum of the tiles' sums. Steps near each other join
//! if they read each other's results or the same values; what needs the group's results, but cannot join, waits
//! until behind the loop, and may be the next group. It pays if the values that are read inside where they are made
//! are large.

mod body;
mod tiling;

use super::uses::Uses;
use super::{Machine, compact};
use crate::program::{Block, Form, Step, ValueId, VariableId};
use indexmap::IndexMap;
use smallvec::SmallVec;
use tiling::{Met, Tiling, tiling};

/// Which tiles pay.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes that have to be read where they are made.
    pub(super) worth: usize,
    /// The most bytes that a tile meets.
    pub(super) tile: usize,
    /// The most bytes of what a tile meets more than once, if no tile meets less.
    pub(super) again: usize,
}

/// Steps that are looked at from the first of a group on.
const REACH: usize = 64;
/// Steps that may have to wait for the group.
const WAITING: usize = 8;
/// The most dims along which a group is grown.
const DEPTHS: usize = 3;
/// How many values as large as its largest a tile may meet.
const LARGE: usize = 8;

/// What fits a core's cache anyway gains nothing, and half of it is for a tile.
pub(super) fn run(block: &mut Block, machine: &Machine) {
    let own = machine.caches.own_bytes;
    let limits = Limits { worth: own / 4, tile: own / 2, again: own };
    run_within(block, limits);
}

pub(super) fn run_within(block: &mut Block, limits: Limits) {
    // What has waited for one group may be the next.
    while once(block, limits) {}
    compact(block);
}

/// Tiles groups that have no steps in common; says whether steps have waited for one.
fn once(block: &mut Block, limits: Limits) -> bool {
    let uses = Uses::new(block);
    let updates = updates(block);
    let at = |depth| block.steps.iter().map(|step| tiling(block, step, depth)).collect();
    let tilings: [Vec<Option<Tiling>>; DEPTHS] = std::array::from_fn(|i| at(i + 1));
    let mut all = Vec::new();
    let mut position = 0;
    while position < block.steps.len() {
        // Fewer steps have more dims in common, and so smaller tiles.
        let tiles = tilings.iter().zip(1..).find_map(|(tilings, depth)| {
            let known = Known { block, uses: &uses, updates: &updates, tilings };
            let group = Group::from(known, (position, depth), limits)?;
            group.tiles(depth, limits)
        });
        position += 1;
        if let Some(tiles) = tiles {
            position = tiles.last() + 1;
            all.push(tiles);
        }
    }
    body::replace(block, &uses, &all);
    all.iter().any(|tiles| tiles.waiting.count() > 0)
}

/// Some of the [`REACH`] steps from one on.
#[derive(Clone, Copy)]
struct StepSet {
    first: usize,
    bits: u64,
}

impl StepSet {
    fn none(first: usize) -> Self {
        Self { first, bits: 0 }
    }

    fn has(self, position: usize) -> bool {
        let offset = position.wrapping_sub(self.first);
        offset < REACH && self.bits >> offset & 1 == 1
    }

    fn add(&mut self, position: usize) {
        self.bits |= 1 << (position - self.first);
    }

    fn count(self) -> usize {
        self.bits.count_ones() as usize
    }

    fn last(self) -> usize {
        self.first + (63 - self.bits.leading_zeros().min(63)) as usize
    }

    fn positions(self) -> impl Iterator<Item = usize> {
        (self.first..self.first + REACH).filter(move |&position| self.has(position))
    }
}

/// Per value that is written to a variable, the values that were read of it.
fn updates(block: &Block) -> IndexMap<ValueId, Vec<ValueId>> {
    let mut reads: IndexMap<VariableId, Vec<ValueId>> = IndexMap::new();
    for step in &block.steps {
        if let Form::Read(form) = &step.form {
            reads.entry(form.variable).or_default().push(step.outs[0]);
        }
    }
    let write = |step: &Step| match &step.form {
        Form::Write(form) => Some((step.inputs[0].value, reads.get(&form.variable)?.clone())),
        _ => None,
    };
    block.steps.iter().filter_map(write).collect()
}

/// What is known of the program's steps.
#[derive(Clone, Copy)]
struct Known<'p> {
    block: &'p Block,
    uses: &'p Uses,
    updates: &'p IndexMap<ValueId, Vec<ValueId>>,
    /// Of every step, along some outermost dims.
    tilings: &'p [Option<Tiling>],
}

/// Steps that can be tiled together, and those between them that need their results.
struct Group<'p> {
    known: Known<'p>,
    members: StepSet,
    waiting: StepSet,
}

/// What a group is done in.
struct Tiles {
    members: StepSet,
    waiting: StepSet,
    /// Sizes of a tile along the outermost dims.
    extents: Vec<usize>,
    count: usize,
}

impl Tiles {
    /// The position of the last member.
    fn last(&self) -> usize {
        self.members.last()
    }
}

impl<'p> Group<'p> {
    /// Grows a group from its first step; along several dims only if what the step meets is too large for tiles of
    /// fewer.
    fn from(known: Known<'p>, (first, depth): (usize, usize), limits: Limits) -> Option<Self> {
        let Known { block, tilings, .. } = known;
        let Tiling { sizes, .. } = tilings[first].as_ref()?;
        let met = block.steps[first].values().map(|value| block.value(value).bytes()).max();
        let outer: usize = sizes[..depth - 1].iter().product();
        if depth > 1 && met? / outer < limits.tile / LARGE {
            return None;
        }
        let (members, waiting) = (StepSet::none(first), StepSet::none(first));
        let mut group = Self { known, members, waiting };
        if !group.fits(first) {
            return None;
        }
        group.members.add(first);
        let end = block.steps.len().min(first + REACH);
        for (position, next) in block.steps.iter().enumerate().take(end).skip(first + 1) {
            let own = tilings[position].as_ref().filter(|own| own.sizes == *sizes);
            let own = own.filter(|_| group.fits(position));
            let inputs: SmallVec<[ValueId; 4]> = next.reads().collect();
            let needs = |of: StepSet| inputs.iter().any(|&input| group.maker(of, input).is_some());
            if needs(group.waiting) {
                group.waiting.add(position);
            } else if own.is_some_and(|own| group.takes(&inputs, own)) {
                group.members.add(position);
            } else if needs(group.members) {
                group.waiting.add(position);
            }
            if group.waiting.count() > WAITING {
                break;
            }
        }
        let behind = u64::MAX.checked_shl((group.members.last() - first) as u32);
        group.waiting.bits &= !behind.unwrap_or_default();
        (group.members.count() > 1).then_some(group)
    }

    /// Whether a step can be a member for all that its loop does: all run it, and if a variable gets what it makes, that can
    /// be made where the old value lies, which tiles meet and nobody reads any more.
    fn fits(&self, position: usize) -> bool {
        let Known { block, uses, updates, tilings } = self.known;
        let step = &block.steps[position];
        let meets_tiles = |user: usize, old: ValueId| {
            let met = tilings[user].iter().flat_map(|tiling| &tiling.met);
            block.steps[user].reads().zip(met).all(|(id, met)| id != old || *met == Met::Tile)
        };
        let takes = |out: usize, old: ValueId| {
            let mut inputs = step.reads().enumerate().filter(|(_, input)| *input == old);
            inputs.all(|(i, _)| step.form.may_work_in_place(&step.inputs, out, i))
        };
        let yields = |old: ValueId| {
            let is_over = |&user: &usize| user <= position && !self.waiting.has(user);
            let inside = |user: &&usize| **user == position || self.members.has(**user);
            let users = &uses.users[old.index()];
            users.iter().all(is_over)
                && users.iter().filter(inside).all(|&user| meets_tiles(user, old))
                && !uses.fetched[old.index()]
        };
        let is_made = |(i, out): (usize, &ValueId)| {
            updates.get(out).into_iter().flatten().all(|&old| yields(old) && takes(i, old))
        };
        step.owners.is_empty() && step.outs.iter().enumerate().all(is_made)
    }

    /// The one of some steps that makes a value.
    fn maker(&self, of: StepSet, value: ValueId) -> Option<usize> {
        self.known.uses.maker[value.index()].filter(|&maker| of.has(maker))
    }

    fn steps(&self) -> impl Iterator<Item = (&'p Step, &'p Tiling)> {
        let Known { block, tilings: all, .. } = self.known;
        let positions = self.members.positions();
        positions.filter_map(move |at| Some((&block.steps[at], all[at].as_ref()?)))
    }

    /// Whether a step reads what the group makes, all of it tile by tile, or at least what the group
    /// reads as well.
    fn takes(&self, inputs: &[ValueId], own: &Tiling) -> bool {
        let mut joined = false;
        for (&input, &met) in inputs.iter().zip(&own.met) {
            let tiled = met == Met::Tile;
            if let Some(maker) = self.maker(self.members, input) {
                if !tiled || self.known.tilings[maker].as_ref().is_none_or(|made| made.folded > 0) {
                    return false;
                }
                joined = true;
            }
            let users = &self.known.uses.users[input.index()];
            joined |= tiled && users.iter().any(|&user| self.members.has(user));
        }
        joined
    }

    /// The tiles of a group that gains by them, along `least` dims or more: the largest that are small enough.
    fn tiles(self, least: usize, limits: Limits) -> Option<Tiles> {
        let bytes = |value: &ValueId| self.known.block.value(*value).bytes();
        let again: usize = self.read_again().iter().map(bytes).sum();
        if again < limits.worth {
            return None;
        }
        let mut met: Vec<ValueId> =
            self.steps().flat_map(|(step, tilings)| met(step, tilings)).collect();
        met.sort_unstable();
        met.dedup();
        let total: usize = met.iter().map(bytes).sum();
        // Small values that tiles meet besides may exceed it.
        let slack = limits.tile / 8;
        if total <= limits.tile + slack {
            return None;
        }
        let within = |bytes: usize, most: usize| {
            let mut levels = (least..).map_while(|depth| self.sizes(depth));
            levels.find_map(|sizes| largest(&sizes, bytes, most))
        };
        // If no tile is small enough with what is met once, one whose other values fit the cache still serves.
        let small = within(total, limits.tile).or_else(|| within(again, limits.again + slack));
        let (extents, count) = small.filter(|(_, count)| *count > 1)?;
        let Self { members, waiting, .. } = self;
        Some(Tiles { members, waiting, extents, count })
    }

    /// What the group reads after it has made it, or read tiles of it.
    fn read_again(&self) -> Vec<ValueId> {
        let mut seen: Vec<ValueId> = Vec::new();
        let mut again = Vec::new();
        for (step, tiling) in self.steps() {
            let read = step.reads().zip(&tiling.met).filter(|(_, met)| **met == Met::Tile);
            for (value, _) in read {
                let all = if seen.contains(&value) { &mut again } else { &mut seen };
                all.push(value);
            }
            seen.extend(&step.outs);
        }
        again.sort_unstable();
        again.dedup();
        again
    }

    /// The sizes of the outermost `depth` dims, if all steps can be tiled along them and none reads a part of what
    /// another makes.
    fn sizes(&self, depth: usize) -> Option<Vec<usize>> {
        let mut first = None;
        let mut parts: SmallVec<[ValueId; 4]> = SmallVec::new();
        for (step, _) in self.steps() {
            let own = tiling(self.known.block, step, depth)?;
            if *first.get_or_insert_with(|| own.sizes.to_vec()) != *own.sizes
                || step.reads().any(|input| parts.contains(&input))
            {
                return None;
            }
            if own.folded > 0 {
                parts.extend(step.outs.iter().copied());
            }
        }
        first
    }
}

/// What a tile of a step meets a part of.
fn met(step: &Step, tilings: &Tiling) -> Vec<ValueId> {
    let inputs = step.reads().zip(&tilings.met);
    let inputs = inputs.filter(|(_, met)| **met == Met::Tile).map(|(input, _)| input);
    let outs = step.outs.iter().filter(|_| tilings.folded == 0);
    inputs.chain(outs.copied()).collect()
}

/// The largest tile of at most `most` bytes, with the number of tiles: it cuts the last of the dims
/// into equal parts and has size 1 along those before. All tiles together are `total` bytes.
fn largest(sizes: &[usize], total: usize, most: usize) -> Option<(Vec<usize>, usize)> {
    let (&last, outer) = sizes.split_last()?;
    let ones: usize = outer.iter().product();
    let fits = most.checked_div(total / (ones * last))?;
    // The number of tries depends on `most`, not on the sizes: a position takes a byte at least.
    let part = (1..=fits.min(last)).rev().find(|part| last.is_multiple_of(*part))?;
    Some((outer.iter().map(|_| 1).chain([part]).collect(), ones * (last / part)))
}

#[cfg(test)]
mod tests {
    use super::largest;

    /// Sizes beyond counting: whoever tried them one by one would not come to an end.
    #[test]
    fn a_tile_is_found_whatever_the_sizes() {
        let huge = 1 << 58;
        let table = [
            (vec![12], 12 * 8, 40, Some((vec![4], 3))),
            (vec![12], 12 * 8, 7, None),
            (vec![12], 12 * 8, 1000, Some((vec![12], 1))),
            (vec![3, 10], 3 * 10 * 8, 50, Some((vec![1, 5], 6))),
            (vec![7], 7 * 4, 12, Some((vec![1], 7))),
            (vec![huge], huge * 4, 512 << 10, Some((vec![128 << 10], huge >> 17))),
            (vec![3 * (huge >> 3)], 3 * (huge >> 1), 48, Some((vec![12], huge >> 5))),
            // A Mersenne prime.
            (vec![(1 << 61) - 1], (1 << 61) - 1, 512 << 10, Some((vec![1], (1 << 61) - 1))),
        ];
        for (sizes, total, most, expected) in table {
            assert_eq!(largest(&sizes, total, most), expected, "{sizes:?} of {total}, {most}");
        }
    }
}
