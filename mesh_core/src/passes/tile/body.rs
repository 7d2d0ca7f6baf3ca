//! From a group of steps to a loop over tiles.

use super::super::uses::Uses;
use super::Tiles;
use super::tiling::{Met, Tiling, tiling};
use crate::names::DType;
use crate::program::forms::{Loop, Map, Reduce, Reshape};
use crate::program::{
    Block, Body, Dims, Extents, Form, Instr, Operand, Origin, Reg, Step, Value, ValueId,
};
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
        before: Vec::new(),
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
    fold: Vec<Step>,
}

struct Making<'a> {
    block: &'a mut Block,
    uses: &'a Uses,
    tiles: &'a Tiles,
    /// A step with the origin and the owners of those that are made.
    like: Step,
    body: Block,
    /// Outer values, and what is met of them, with what they are inside.
    known: IndexMap<(ValueId, Met), ValueId>,
    /// What repeats values for the loop.
    before: Vec<Step>,
    sliced: Vec<(ValueId, ValueId)>,
    captured: Vec<(ValueId, ValueId)>,
    stacked: Vec<Stacked>,
}

impl Making<'_> {
    /// The type of what a tile meets of a value that has the first `dims` of the dims outermost.
    fn tile(&self, value: ValueId, dims: usize) -> Value {
        let mut value = self.block.value(value).clone();
        for (&dim, &extent) in value.order.iter().zip(&self.tiles.extents[..dims]) {
            value.extents[usize::from(dim)] = extent;
        }
        value
    }

    /// What an input of a member is inside.
    fn input(&mut self, outer: ValueId, met: Met) -> ValueId {
        if let Some(&inner) = self.known.get(&(outer, met)) {
            return inner;
        }
        let inner = match met {
            Met::All => self.block.value(outer).clone(),
            Met::Tile => self.tile(outer, self.tiles.extents.len()),
            Met::First(dims) => self.tile(outer, dims),
        };
        let inner = self.body.define(inner);
        self.known.insert((outer, met), inner);
        match met {
            Met::All => self.captured.push((outer, inner)),
            Met::Tile => self.sliced.push((outer, inner)),
            Met::First(dims) => {
                let repeated = self.repeated(outer, dims, inner);
                self.sliced.push((repeated, inner));
            }
        }
        inner
    }

    /// For every tile what it meets of a value that lacks the dims behind the first `dims`.
    fn repeated(&mut self, value: ValueId, dims: usize, inner: ValueId) -> ValueId {
        let Value { dtype, extents, .. } = self.block.value(value).clone();
        let count = self.tiles.count;
        let mut all = extents.clone();
        all.insert(dims, count / extents[..dims].iter().product::<usize>());
        let body = Body { code: vec![(Instr::Input(0), dtype)], results: vec![Reg(0)] };
        let labels = (0..all.len() as u8).filter(|&dim| usize::from(dim) != dims).collect();
        let rank = all.len();
        let all = self.block.define(Value::new(dtype, all));
        let stack = self.block.define(self.body.value(inner).stacked(count));
        let input = Operand { value, dims: labels };
        self.before.push(self.like.instead(Map::new(body), [input], &[all]));
        self.before.push(self.like.instead(Reshape, [Operand::whole(all, rank)], &[stack]));
        stack
    }

    fn member(&mut self, position: usize) {
        let mut step = self.block.steps[position].clone();
        let Some(tiling) = tiling(self.block, &step, self.tiles.extents.len()) else { return };
        for (input, &met) in step.inputs.iter_mut().zip(&tiling.met) {
            input.value = self.input(input.value, met);
        }
        let outer = step.outs.clone();
        for out in &mut step.outs {
            // Of what a fold keeps, tiles have one position each.
            let value = self.tile(*out, self.tiles.extents.len() - tiling.folded);
            let inner = self.body.define(value);
            self.known.insert((*out, Met::Tile), inner);
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
                self.stack(out, inner, &step, &tiling);
            }
        }
        self.body.steps.push(step);
    }

    /// Gives away what a member makes.
    fn stack(&mut self, out: ValueId, inner: ValueId, step: &Step, tiling: &Tiling) {
        let (Form::Reduce(Reduce { kind, .. }), true) = (&step.form, tiling.folded > 0) else {
            self.stacked.push(Stacked { outer: out, inner, fold: Vec::new() });
            return;
        };
        let count = self.tiles.count;
        let outer = self.block.define(self.body.value(inner).stacked(count));
        let whole = self.block.value(out);
        let kept = self.tiles.extents.len() - tiling.folded;
        let rank = whole.extents.len() as u8;
        // Tiles follow each other along the dims that the fold keeps, and then along those that it does not.
        let mut dims: Dims = (0..rank).collect();
        dims.insert(kept, rank);
        let mut fold = Vec::new();
        let mut parts = outer;
        if kept > 0 {
            let mut extents = whole.extents.clone();
            extents.insert(kept, count / whole.extents[..kept].iter().product::<usize>());
            parts = self.block.define(Value::new(whole.dtype, extents));
            let tiles = Operand::whole(outer, usize::from(rank) + 1);
            fold.push(self.like.instead(Reshape, [tiles], &[parts]));
        }
        let parts = Operand { value: parts, dims };
        fold.push(self.like.instead(Reduce::new(*kind), [parts], &[out]));
        self.stacked.push(Stacked { outer, inner, fold });
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
        let folds = self.stacked.into_iter().flat_map(|stacked| stacked.fold);
        let all = self.like.instead(form, inputs, &outs);
        self.before.into_iter().chain([all]).chain(folds).collect()
    }
}
