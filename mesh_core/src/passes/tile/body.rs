//! From a group of steps to a loop over tiles.

use super::super::uses::Uses;
use super::Tiles;
use super::tiling::{Tiling, tiling};
use crate::names::DType;
use crate::program::forms::{Loop, Reduce};
use crate::program::{Block, Extents, Form, Operand, Origin, Step, Value, ValueId};
use indexmap::IndexMap;

/// Puts a loop in the place of each group's last step, and behind it what waits for the group.
pub(super) fn replace(block: &mut Block, uses: &Uses, all: &[Tiles]) {
    let loops: Vec<Vec<Step>> = all.iter().map(|tiles| made(block, uses, tiles)).collect();
    let old = std::mem::take(&mut block.steps);
    let mut loops = all.iter().zip(loops).peekable();
    let mut waiting = Vec::new();
    for (position, step) in old.into_iter().enumerate() {
        let tiles = loops.peek().map(|(tiles, _)| *tiles);
        match tiles {
            Some(tiles) if tiles.waiting.has(position) => waiting.push(step),
            Some(tiles) if tiles.members.has(position) => {}
            _ => block.steps.push(step),
        }
        if let Some((_, steps)) = loops.next_if(|(tiles, _)| tiles.last() == position) {
            block.steps.extend(steps);
            block.steps.append(&mut waiting);
        }
    }
}

/// The loop that does a group, and the sums of what its tiles give in parts.
fn made(block: &mut Block, uses: &Uses, tiles: &Tiles) -> Vec<Step> {
    let [one, two] = [tiles.members.first, tiles.last()].map(|p| &block.steps[p]);
    let like = Step { origin: Origin::merge(&one.origin, &two.origin), ..one.clone() };
    let mut making = Making {
        uses,
        tiles,
        like,
        body: Block::default(),
        known: IndexMap::new(),
        sliced: Vec::new(),
        captured: Vec::new(),
        stacked: Vec::new(),
        block,
    };
    tiles.members.positions().for_each(|position| making.member(position));
    making.finish()
}

/// A value of the block that a body makes in parts.
struct Stacked {
    outer: ValueId,
    inner: ValueId,
    /// The fold that is left to do over the tiles.
    sum: Option<Step>,
}

struct Making<'a> {
    block: &'a mut Block,
    uses: &'a Uses,
    tiles: &'a Tiles,
    /// A step with the origin and the owners of those that are made.
    like: Step,
    body: Block,
    /// Outer values, and whether they are met tile by tile, with what they are inside.
    known: IndexMap<(ValueId, bool), ValueId>,
    sliced: Vec<(ValueId, ValueId)>,
    captured: Vec<(ValueId, ValueId)>,
    stacked: Vec<Stacked>,
}

impl Making<'_> {
    /// The type of a tile of a value.
    fn tile(&self, value: ValueId) -> Value {
        let mut value = self.block.value(value).clone();
        for (&dim, &extent) in value.order.iter().zip(&self.tiles.extents) {
            value.extents[usize::from(dim)] = extent;
        }
        value
    }

    /// What an input of a member is inside.
    fn input(&mut self, outer: ValueId, tiled: bool) -> ValueId {
        if let Some(&inner) = self.known.get(&(outer, tiled)) {
            return inner;
        }
        let value = if tiled { self.tile(outer) } else { self.block.value(outer).clone() };
        let inner = self.body.define(value);
        self.known.insert((outer, tiled), inner);
        if tiled { &mut self.sliced } else { &mut self.captured }.push((outer, inner));
        inner
    }

    fn member(&mut self, position: usize) {
        let mut step = self.block.steps[position].clone();
        let Some(tiling) = tiling(self.block, &step, self.tiles.extents.len()) else { return };
        for (input, &tiled) in step.inputs.iter_mut().zip(&tiling.tiled) {
            input.value = self.input(input.value, tiled);
        }
        let outer = step.outs.clone();
        for out in &mut step.outs {
            let value = self.out(*out, &tiling);
            let inner = self.body.define(value);
            self.known.insert((*out, true), inner);
            *out = inner;
        }
        if let Form::Move(form) = &mut step.form {
            for piece in &mut form.pieces {
                piece.extents[..self.tiles.extents.len()].copy_from_slice(&self.tiles.extents);
            }
        }
        for (&out, &inner) in outer.iter().zip(&step.outs) {
            let named = self.block.tensors.iter().find(|(value, _)| *value == out);
            self.body.tensors.extend(named.map(|(_, slot)| (inner, slot.clone())));
            let users = &self.uses.users[out.index()];
            let outside = users.iter().any(|&user| !self.tiles.members.has(user));
            if outside || self.uses.fetched[out.index()] {
                self.stack(out, inner, &step, tiling.partial);
            }
        }
        self.body.steps.push(step);
    }

    fn out(&self, out: ValueId, tiling: &Tiling) -> Value {
        if tiling.partial { self.block.value(out).clone() } else { self.tile(out) }
    }

    /// Gives away what a member makes.
    fn stack(&mut self, out: ValueId, inner: ValueId, step: &Step, partial: bool) {
        let (Form::Reduce(Reduce { kind }), true) = (&step.form, partial) else {
            self.stacked.push(Stacked { outer: out, inner, sum: None });
            return;
        };
        let whole = self.block.value(out);
        let rank = whole.extents.len() as u8;
        let outer = self.block.define(whole.stacked(self.tiles.count));
        let dims = std::iter::once(rank).chain(0..rank).collect();
        let input = Operand { value: outer, dims };
        let sum = self.like.instead(Reduce { kind: *kind }, [input], &[out]);
        self.stacked.push(Stacked { outer, inner, sum: Some(sum) });
    }

    /// The loop, and what is to be done behind it.
    fn finish(mut self) -> Vec<Step> {
        let position = self.body.define(Value::new(DType::I32, Extents::new()));
        let given = || self.sliced.iter().chain(&self.captured);
        self.body.params = given().map(|(_, inner)| *inner).chain([position]).collect();
        self.body.results = self.stacked.iter().map(|stacked| stacked.inner).collect();
        let form = Loop {
            count: self.tiles.count,
            reverse: false,
            conditional: false,
            carried: 0,
            sliced: self.sliced.len(),
            body: Box::new(self.body),
        };
        let whole = |(outer, _): &(ValueId, ValueId)| {
            Operand::whole(*outer, self.block.value(*outer).extents.len())
        };
        let inputs: Vec<_> = self.sliced.iter().chain(&self.captured).map(whole).collect();
        let outs: Vec<_> = self.stacked.iter().map(|stacked| stacked.outer).collect();
        let sums = self.stacked.into_iter().filter_map(|stacked| stacked.sum);
        [self.like.instead(form, inputs, &outs)].into_iter().chain(sums).collect()
    }
}
