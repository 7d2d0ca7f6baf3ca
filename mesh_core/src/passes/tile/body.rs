//! From a group of steps to a loop over tiles.

use super::super::merged;
use super::super::uses::Uses;
use super::Tiles;
use super::ways::{Ways, ways};
use crate::names::DType;
use crate::program::{Extents, Node, Operand, Program, Rounds, Slot, Step, Value, ValueId};
use indexmap::IndexMap;
use smallvec::SmallVec;

/// Puts a loop in the place of each group's last step, and behind it what waits for the group.
pub(super) fn replace(program: &mut Program, uses: &Uses, all: &[Tiles]) {
    let loops: Vec<Vec<Node>> = all.iter().map(|tiles| made(program, uses, tiles)).collect();
    let old = std::mem::take(&mut program.steps);
    let mut loops = all.iter().zip(loops).peekable();
    let mut waiting = Vec::new();
    for (position, node) in old.into_iter().enumerate() {
        let tiles = loops.peek().map(|(tiles, _)| *tiles);
        match tiles {
            Some(tiles) if tiles.waiting.has(position) => waiting.push(node),
            Some(tiles) if tiles.members.has(position) => {}
            _ => program.steps.push(node),
        }
        if let Some((_, nodes)) = loops.next_if(|(tiles, _)| tiles.last() == position) {
            program.steps.extend(nodes);
            program.steps.append(&mut waiting);
        }
    }
}

/// The loop that does a group, and the sums of what its tiles give in parts.
fn made(program: &mut Program, uses: &Uses, tiles: &Tiles) -> Vec<Node> {
    let node = |position: usize| &program.steps[position];
    let [one, two] = [tiles.members.first, tiles.last()].map(|p| program.origin(node(p)));
    let origin = merged(one, two);
    program.origins.push(origin);
    let origin = program.origins.len() - 1;
    let mut making = Making {
        uses,
        tiles,
        body: Program { name: program.name.clone(), ..Program::default() },
        known: IndexMap::new(),
        sliced: Vec::new(),
        captured: Vec::new(),
        stacked: Vec::new(),
        program,
    };
    tiles.members.positions().for_each(|position| making.member(position));
    let (step, sums) = making.finish();
    let steps = std::iter::once(step).chain(sums);
    steps.map(|step| Node { step, origin, owners: SmallVec::new() }).collect()
}

/// A value of the program that a body makes in parts.
struct Stacked {
    outer: ValueId,
    inner: ValueId,
    /// The fold that is left to do over the tiles.
    sum: Option<Step>,
}

struct Making<'a> {
    program: &'a mut Program,
    uses: &'a Uses,
    tiles: &'a Tiles,
    body: Program,
    /// Outer values, and whether they are met tile by tile, with what they are inside.
    known: IndexMap<(ValueId, bool), ValueId>,
    sliced: Vec<(ValueId, ValueId)>,
    captured: Vec<(ValueId, ValueId)>,
    stacked: Vec<Stacked>,
}

impl Making<'_> {
    /// The type of a tile of a value.
    fn tile(&self, value: ValueId) -> Value {
        let mut value = self.program.value(value).clone();
        for (&dim, &extent) in value.order.iter().zip(&self.tiles.extents) {
            value.extents[usize::from(dim)] = extent;
        }
        value
    }

    fn define(&mut self, value: Value) -> ValueId {
        self.body.values.push(value);
        ValueId(self.body.values.len() as u32 - 1)
    }

    /// What an input of a member is inside.
    fn input(&mut self, outer: ValueId, tiled: bool) -> ValueId {
        if let Some(&inner) = self.known.get(&(outer, tiled)) {
            return inner;
        }
        let value = if tiled { self.tile(outer) } else { self.program.value(outer).clone() };
        let inner = self.define(value);
        self.known.insert((outer, tiled), inner);
        if tiled { &mut self.sliced } else { &mut self.captured }.push((outer, inner));
        inner
    }

    fn member(&mut self, position: usize) {
        let Node { mut step, origin, .. } = self.program.steps[position].clone();
        let Some(ways) = ways(self.program, &step, self.tiles.extents.len()) else { return };
        let mut tiled = ways.tiled.iter();
        step.each_input(|input| {
            *input = self.input(*input, tiled.next().copied().unwrap_or_default());
        });
        let mut made: SmallVec<[_; 1]> = SmallVec::new();
        step.each_out(|out| {
            let value = self.out(*out, &ways);
            let inner = self.define(value);
            self.known.insert((*out, true), inner);
            made.push((*out, inner));
            *out = inner;
        });
        if let Step::Move { pieces, .. } = &mut step {
            for piece in pieces {
                piece.extents[..self.tiles.extents.len()].copy_from_slice(&self.tiles.extents);
            }
        }
        for (out, inner) in made {
            let named = self.program.tensors.iter().find(|slot| slot.value == out);
            self.body.tensors.extend(named.map(|slot| Slot { value: inner, ..slot.clone() }));
            let users = &self.uses.users[out.index()];
            let outside = users.iter().any(|&user| !self.tiles.members.has(user));
            if outside || self.uses.fetched[out.index()] {
                self.stack(out, inner, &step, ways.partial);
            }
        }
        self.body.origins.push(self.program.origins[origin].clone());
        let origin = self.body.origins.len() - 1;
        self.body.steps.push(Node { step, origin, owners: SmallVec::new() });
    }

    fn out(&self, out: ValueId, ways: &Ways) -> Value {
        if ways.partial { self.program.value(out).clone() } else { self.tile(out) }
    }

    /// Gives away what a member makes.
    fn stack(&mut self, out: ValueId, inner: ValueId, step: &Step, partial: bool) {
        let (Step::Reduce { kind, .. }, true) = (step, partial) else {
            self.stacked.push(Stacked { outer: out, inner, sum: None });
            return;
        };
        let Value { dtype, extents, order } = self.program.value(out).clone();
        let rank = extents.len() as u8;
        let extents = std::iter::once(self.tiles.count).chain(extents).collect();
        let order = std::iter::once(0).chain(order.into_iter().map(|dim| dim + 1)).collect();
        self.program.values.push(Value { dtype, extents, order });
        let outer = ValueId(self.program.values.len() as u32 - 1);
        let dims = std::iter::once(rank).chain(0..rank).collect();
        let sum = Step::Reduce { kind: *kind, input: Operand { value: outer, dims }, out };
        self.stacked.push(Stacked { outer, inner, sum: Some(sum) });
    }

    fn slot(&self, value: ValueId) -> Slot {
        Slot::whole(value, &self.body.value(value).extents)
    }

    /// The loop, and what is to be done behind it.
    fn finish(mut self) -> (Step, Vec<Step>) {
        let position = self.define(Value::new(DType::I32, Extents::new()));
        let given = self.sliced.iter().chain(&self.captured).map(|(_, inner)| *inner);
        let feeds = given.chain([position]).map(|value| self.slot(value)).collect();
        let fetches = self.stacked.iter().map(|stacked| self.slot(stacked.inner)).collect();
        (self.body.feeds, self.body.fetches) = (feeds, fetches);
        let outer = |pairs: &[(ValueId, ValueId)]| pairs.iter().map(|(outer, _)| *outer).collect();
        let rounds = Rounds {
            count: self.tiles.count,
            reverse: false,
            condition: None,
            carried: Vec::new(),
            sliced: outer(&self.sliced),
            captured: outer(&self.captured),
            outs: self.stacked.iter().map(|stacked| stacked.outer).collect(),
            body: self.body,
        };
        let sums = self.stacked.into_iter().filter_map(|stacked| stacked.sum).collect();
        (Step::Loop(Box::new(rounds)), sums)
    }
}
