//! Prepares loops.

use super::{Preparing, expect, pointers};
use crate::exec::action::{Entry, Part, PreparedLoop};
use crate::exec::comm::Comm;
use crate::exec::comm::courier::Peers;
use crate::exec::cpu::{Coming, Memory, cache};
use crate::program::forms::{Loop, LoopInputs, is_stack};
use crate::program::{ALIGNMENT, Block, Operand, Place, Plan, Step, ValueId};

impl Preparing<'_> {
    /// A loop, whose verified body has its own arena behind this block's.
    pub(super) fn repeat(
        &self,
        form: &Loop,
        step: &Step,
        plan: &Plan,
        peers: &mut Peers<impl Comm>,
    ) -> Result<(PreparedLoop, usize), String> {
        let body = &*form.body;
        self.fits(form, step)?;
        let base = self.base + self.plan.own_bytes();
        let pointers = pointers(self.name, body, plan, self.site, base)?;
        let mut memory = Memory::new(pointers);
        let (given, left) = (self.given(form, step), self.left(form, step));
        let coming = coming(&given, form.count);
        memory.coming = Coming::of(coming.len());
        let (staying, moving) = self.settle(plan, body, &given, &left, &mut memory)?;
        let first = |part: &Part| self.memory.pointers[part.outer];
        let elsewhere = |part: &Part| memory.pointers[part.value] != first(part);
        let (stacks, next): (Vec<_>, Vec<_>) =
            left.into_iter().enumerate().partition(|(i, _)| *i >= form.carried);
        let left = stacks.into_iter().chain(next).map(|(_, part)| part).filter(elsewhere).collect();
        let given = given.into_iter().filter(elsewhere).collect();
        let begin = |(from, &to): (&Operand, &ValueId)| Entry {
            from: from.value.index(),
            to: to.index(),
            bytes: self.value(to).bytes(),
        };
        let inputs = form.inputs(step);
        let first = inputs.condition.map(ValueId::index);
        let position = form.position().ok_or("its body has no position")?;
        let position = memory.pointers[position.index()].cast();
        let inner = Preparing {
            name: self.name,
            block: body,
            plan,
            site: self.site,
            memory: &memory,
            base,
        };
        let (actions, scratch) = inner.actions(peers)?;
        let repeat = PreparedLoop {
            count: form.count,
            reverse: form.reverse,
            condition: first.zip(form.again().map(ValueId::index)),
            position,
            first: inputs.carried.iter().zip(&step.outs).map(begin).collect(),
            staying,
            moving,
            coming,
            given,
            left,
            actions,
            memory,
        };
        Ok((repeat, scratch))
    }

    /// What the body is given, but for the position.
    fn given(&self, form: &Loop, step: &Step) -> Vec<Part> {
        let params = form.body.params.iter().zip(given(form, step)).enumerate();
        let slices = form.slices();
        params
            .map(|(i, (&param, outer))| self.part(form, param, outer, slices.contains(&i)))
            .collect()
    }

    /// What the body leaves, but for whether to go on.
    fn left(&self, form: &Loop, step: &Step) -> Vec<Part> {
        let results = form.body.results.iter().zip(&step.outs).enumerate();
        let stacks = form.stacks();
        results
            .map(|(i, (&result, &out))| self.part(form, result, out, stacks.contains(&i)))
            .collect()
    }

    fn part(&self, form: &Loop, value: ValueId, outer: ValueId, moves: bool) -> Part {
        let bytes = form.body.value(value).bytes();
        let stride = if moves { bytes } else { 0 };
        Part { value: value.index(), bytes, outer: outer.index(), stride }
    }

    /// Whether what the body is given and gives fits what the loop has.
    fn fits(&self, form: &Loop, step: &Step) -> Result<(), String> {
        let (body, flag) = (&*form.body, usize::from(form.conditional));
        let given_count = step.inputs.len() - flag;
        expect(body.params.len() == given_count + 1, "its parameters")?;
        expect(body.results.len() == step.outs.len() + flag, "its results")?;
        let params = given(form, step).zip(&body.params).map(|(outer, &inner)| (outer, inner));
        let results = step.outs.iter().zip(&body.results).map(|(&outer, &inner)| (outer, inner));
        let params = params.enumerate().map(|(i, pair)| (form.slices().contains(&i), pair));
        let results = results.enumerate().map(|(i, pair)| (form.stacks().contains(&i), pair));
        for (moves, (outer, inner)) in params.chain(results) {
            let (outer, inner) = (self.value(outer), body.value(inner));
            let fits = if moves { is_stack(outer, inner, form.count) } else { outer == inner };
            expect(fits, "a parameter or result does not fit")?;
        }
        Ok(())
    }

    /// Points values of the body at the loop's own; gives those that stay where they are, and those that
    /// move on. The position lies in the body's own memory.
    fn settle(
        &self,
        plan: &Plan,
        body: &Block,
        given: &[Part],
        left: &[Part],
        memory: &mut Memory,
    ) -> Result<(Vec<Part>, Vec<Part>), String> {
        let mut all = Vec::new();
        for (value, place) in plan.places.iter().enumerate() {
            let part = match *place {
                Place::Param(i) => given.get(i),
                Place::Stacked(i) => left.get(i).filter(|part| part.stride > 0),
                _ => continue,
            };
            let &Part { bytes, outer, stride, .. } =
                part.ok_or("a value is in nothing of its loop")?;
            expect(body.values[value].bytes() == bytes, "a value does not fit what it lies in")?;
            expect(stride.is_multiple_of(ALIGNMENT), "a slice is not aligned")?;
            memory.pointers[value] = self.memory.pointers[outer];
            all.push(Part { value, bytes, outer, stride });
        }
        let position = body.params.last().map(|param| plan.places[param.index()]);
        expect(matches!(position, Some(Place::Arena(_))), "the position is not the body's own")?;
        Ok(all.into_iter().partition(|part| part.stride == 0))
    }
}

/// The slices that are asked for one iteration ahead: if all of them do not stay in a near cache anyway, and
/// those of two iterations do.
fn coming(given: &[Part], count: usize) -> Vec<Part> {
    const MOST: usize = 1 << 18;
    const LEAST: usize = 1 << 20;
    let slices = given.iter().filter(|part| part.stride > 0);
    let bytes: usize = slices.clone().map(|part| part.bytes).sum();
    // A near third cache answers in time by itself.
    let pays = bytes <= MOST && bytes * count >= LEAST.max(cache::near());
    slices.filter(|_| pays).cloned().collect()
}

/// What the parameters of a body stand for, but for the position. What is carried lives in the loop's
/// outs.
fn given(form: &Loop, step: &Step) -> impl Iterator<Item = ValueId> {
    let LoopInputs { carried, sliced, captured, .. } = form.inputs(step);
    let others = sliced.iter().chain(captured).map(|input| input.value);
    step.outs.iter().take(carried.len()).copied().chain(others)
}
