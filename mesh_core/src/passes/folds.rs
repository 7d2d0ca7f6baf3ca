//! What a fold reads is computed as it is folded, so that it need not be written.
//!
//! A fold takes an elementwise operation whose result it alone reads; or, of one value as large as its result, by
//! an operation or two, whoever else reads it. What that is made of must not live longer for it than what it saves.

use super::dead;
use super::uses::Uses;
use super::weave::{Weave, turned};
use crate::names::DType;
use crate::program::forms::{Map, Reduce};
use crate::program::{Block, Body, Form, Instr, Operand, Origin, Reg, Step, ValueId};

/// Instructions of an expression, beyond which its tiles leave the first cache.
const LONGEST: usize = 64;
/// The most inputs of an expression.
const WIDEST: usize = 12;
/// The most operations of a value that others read as well.
const CHEAP: usize = 2;

pub(super) fn run(block: &mut Block) {
    // Of what nobody needs there are no readers.
    dead::run(block);
    let mut taking = Taking { uses: Uses::new(block), block };
    // What one fold takes may leave another alone with a value.
    while taking.sweep() {}
    dead::run(block);
}

struct Taking<'p> {
    block: &'p mut Block,
    uses: Uses,
}

impl Taking<'_> {
    /// Takes what can be taken; says whether anything could.
    fn sweep(&mut self) -> bool {
        let mut found = false;
        for position in 0..self.block.steps.len() {
            while self.once(position) {
                found = true;
            }
        }
        found
    }

    /// Takes one operation into the fold at a position; says whether there was one.
    fn once(&mut self, position: usize) -> bool {
        let step = &self.block.steps[position];
        let Form::Reduce(reduce) = &step.form else { return false };
        if self.block.value(step.outs[0]).dtype == DType::BF16 {
            return false;
        }
        let taken = (0..step.inputs.len()).find_map(|i| {
            let (maker, map) = self.map(position, step.inputs[i].value)?;
            let made = &self.block.steps[maker];
            let woven = self.woven(step, reduce, i, (map, &made.inputs))?;
            Some((i, woven, Origin::merge(&made.origin, &step.origin)))
        });
        let Some((i, (body, inputs), origin)) = taken else { return false };
        let (kind, value) = (reduce.kind, step.inputs[i].value);
        for input in &inputs {
            let users = &mut self.uses.users[input.value.index()];
            if let Err(at) = users.binary_search(&position) {
                users.insert(at, position);
            }
        }
        let step = &mut self.block.steps[position];
        step.form = Reduce { kind, body: Some(body) }.into();
        (step.inputs, step.origin) = (inputs.into(), origin);
        if !step.has_input(value) {
            self.forget(value, position);
        }
        true
    }

    /// The map that makes a value, if a fold of it may do that instead.
    fn map(&self, fold: usize, value: ValueId) -> Option<(usize, &Map)> {
        let maker = self.uses.maker[value.index()]?;
        let step = &self.block.steps[maker];
        let Form::Map(map) = &step.form else { return None };
        let same_owners = step.owners == self.block.steps[fold].owners;
        if step.outs.len() > 1 || !map.reads_all() || !same_owners {
            return None;
        }
        let alone = self.uses.has_one_reader(value);
        (alone || self.is_cheap(fold, value, (map, &step.inputs))).then_some((maker, map))
    }

    /// Whether a value that others read is made of one as large, which lives until the fold, or instead of it.
    fn is_cheap(&self, fold: usize, value: ValueId, (map, inputs): (&Map, &[Operand])) -> bool {
        let len = self.block.value(value).len();
        let large = inputs.iter().filter(|input| self.block.value(input.value).len() * 8 > len);
        let large: Vec<ValueId> = large.map(|input| input.value).collect();
        let &[of] = &large[..] else { return false };
        let users = &self.uses.users[value.index()];
        let mut others = users.iter().filter(|&&user| user != fold);
        let is_map = |user: &usize| matches!(self.block.steps[*user].form, Form::Map(_));
        let one_map = others.next().is_some_and(is_map) && others.next().is_none();
        let lives = self.uses.last(of) >= fold || one_map && !self.uses.fetched[value.index()];
        map.body.flops() <= CHEAP && self.block.value(of).len() == len && lives
    }

    /// The fold with a map in the place of an input.
    fn woven(
        &self,
        step: &Step,
        reduce: &Reduce,
        taken: usize,
        (map, inputs): (&Map, &[Operand]),
    ) -> Option<(Body, Vec<Operand>)> {
        let values = &self.block.values;
        let mut weave = Weave::default();
        let value = step.inputs[taken].value;
        let regs: Vec<Reg> = step
            .inputs
            .iter()
            .map(|input| {
                if input.value != value {
                    return weave.input(values, input.clone());
                }
                let inner = inputs.iter().map(|inner| turned(inner, input));
                let regs: Vec<_> = inner.map(|inner| weave.input(values, inner)).collect();
                let made = weave.append(&map.body, &regs);
                weave.stored(made[0])
            })
            .collect();
        let folded = match &reduce.body {
            Some(body) => weave.append(body, &regs),
            None => regs,
        };
        let (body, woven) = weave.finish(&folded);
        // Every label has to be met, and what is met to be read.
        let has = |label: &u8| woven.iter().any(|input| input.dims.contains(label));
        let all = step.inputs.iter().flat_map(|input| &input.dims).all(has);
        let read = |i: usize| body.code.iter().any(|(instr, _)| *instr == Instr::Input(i as u8));
        let fits = body.code.len() <= LONGEST && woven.len() <= WIDEST;
        (all && fits && (0..woven.len()).all(read)).then_some((body, woven))
    }

    /// A step reads a value no longer; what nobody reads is not made.
    fn forget(&mut self, value: ValueId, user: usize) {
        let users = &mut self.uses.users[value.index()];
        users.retain(|other| *other != user);
        if !users.is_empty() || self.uses.fetched[value.index()] {
            return;
        }
        let Some(maker) = self.uses.maker[value.index()] else { return };
        let step = &self.block.steps[maker];
        if step.outs.len() > 1 || step.form.has_effect() {
            return;
        }
        let inputs: Vec<_> = step.reads().collect();
        inputs.into_iter().for_each(|input| self.forget(input, maker));
    }
}
