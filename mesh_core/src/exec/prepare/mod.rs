//! Looks up everything a step needs, once: pointers, groups, sizes, kernels.

mod collective;
mod fed;
mod loops;

use super::action::{Action, Crossing, PreparedFeed};
use super::border::Border;
use super::comm::Comm;
use super::comm::courier::Peers;
use super::comm::fold::Fold;
use super::cpu::{self, Memory};
use super::memory::Store;
use super::run::Executor;
use super::seed::Seed;
use super::strided::Walk;
use super::sync::Arc;
use crate::names::{AxisList, Mesh, ReduceKind};
use crate::program::{
    ALIGNMENT, Block, Compiled, Form, Place, Plan, Program, Slot, Step, Value, ValueId, VariableId,
    VariableType, owns,
};
use std::collections::BTreeMap;

/// The processor a function is prepared for.
pub(super) struct Site<'t> {
    pub(super) mesh: &'t Mesh,
    pub(super) processor: usize,
    /// Those that are given the same callers' arrays, this one among them.
    pub(super) here: &'t [usize],
    pub(super) variables: &'t [VariableType],
    pub(super) store: &'t Store,
    pub(super) seed: &'t Seed,
    /// Whether numbers are looked at after each step: a collective is then met where it stands, though
    /// the program awaits it later.
    pub(super) inspects: bool,
}

/// Bytes of a processor's slice of a variable.
pub(super) fn variable_bytes(variable: &VariableType) -> usize {
    variable.extents.iter().product::<usize>() * variable.dtype.size()
}

impl Executor {
    /// Prepares a function; the error is for people. The plan is checked as far as memory safety
    /// rests on it here: that values lie within the arena or fill their variable.
    pub(super) fn new(
        compiled: &Compiled,
        site: &Site<'_>,
        peers: &mut Peers<impl Comm>,
    ) -> Result<Self, String> {
        let Compiled { program, plan } = compiled;
        let (name, block) = (&*program.name, &program.block);
        let memory = Memory::new(pointers(name, block, plan, site, 0)?);
        let preparing = Preparing { name, block, plan, site, memory: &memory, base: 0 };
        let (actions, scratch_bytes) = preparing.actions(peers)?;
        let feeds = program.fed().map(|(slot, value)| {
            let (border, own) = (preparing.border(slot, value)?, preparing.at(value));
            Ok(PreparedFeed { border, own, names: preparing.names(value) })
        });
        let feeds = feeds.collect::<Result<_, String>>()?;
        let Site { mesh, processor, here, .. } = *site;
        let delivers = |slot: &Slot| {
            let place = |processor, axes: &AxisList| mesh.group_index(processor, axes);
            let same = |&&other: &&usize| {
                slot.split.iter().all(|axes| place(other, axes) == place(processor, axes))
            };
            here.iter().find(same) == Some(&processor)
        };
        let fetches = preparing.fetches(program, delivers)?;
        Ok(Self { feeds, actions, fetches, memory, scratch_bytes, position: 0 })
    }
}

/// Step `index` for people: `step 3 of \`train\` (all_reduce, for einsum \`dense/mul\` at src/main.rs:17)`.
pub(super) fn describe(name: &str, block: &Block, index: usize) -> String {
    let Some(step) = block.steps.get(index) else {
        return format!("step {index} of `{name}`");
    };
    let mut text = format!("step {index} of `{name}` ({}", step.form.name());
    let origin = &*step.origin;
    if !origin.op.is_empty() {
        text += &format!(", for {} `{}`", origin.op, origin.name);
    }
    if !origin.at.is_empty() {
        text += &format!(" at {}", origin.place());
    }
    text + ")"
}

/// Where every value is on the site, its plan's arena beginning at byte `base`.
pub(super) fn pointers(
    name: &str,
    block: &Block,
    plan: &Plan,
    site: &Site<'_>,
    base: usize,
) -> Result<Vec<*mut u8>, String> {
    if plan.places.len() != block.values.len() {
        return Err(format!("the plan of `{name}` is for another program"));
    }
    let places = block.values.iter().zip(&plan.places).enumerate();
    let pointer = |(index, (value, place)): (usize, (&Value, &Place))| match *place {
        Place::Arena(offset) => {
            let fits = offset.checked_add(value.bytes()).is_some_and(|end| end <= plan.own_bytes());
            if !fits || !offset.is_multiple_of(ALIGNMENT) {
                return Err(format!("%{index} of `{name}` is misplaced in the arena"));
            }
            Ok(site.store.arena.pointer().wrapping_add(base + offset))
        }
        Place::Variable(variable) => {
            let known = site.variables.get(variable.index());
            let fits = |known| variable_bytes(known) == value.bytes() && value.in_order();
            if !known.is_some_and(fits) {
                return Err(format!("%{index} of `{name}` does not fit {variable:?}"));
            }
            Ok(site.store.variables[variable.index()].pointer())
        }
        // The loop knows where.
        Place::Param(_) | Place::Stacked(_) => Ok(std::ptr::null_mut()),
    };
    places.map(pointer).collect()
}

pub(super) struct Preparing<'p> {
    /// The program's.
    pub(super) name: &'p str,
    pub(super) block: &'p Block,
    pub(super) plan: &'p Plan,
    pub(super) site: &'p Site<'p>,
    pub(super) memory: &'p Memory,
    /// Where the plan's arena begins.
    pub(super) base: usize,
}

/// What has to hold, or else the problem.
pub(super) fn expect(condition: bool, problem: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(problem.to_owned()) }
}

impl Preparing<'_> {
    pub(super) fn at(&self, id: ValueId) -> *mut u8 {
        self.memory.pointers[id.index()]
    }

    pub(super) fn value(&self, id: ValueId) -> &Value {
        self.block.value(id)
    }

    /// The position in memory order of dim `dim` of the input, whose order the result shares.
    pub(super) fn position(&self, dim: u8, input: ValueId, out: ValueId) -> Result<usize, String> {
        let (input, out) = (self.value(input), self.value(out));
        expect(input.dtype == out.dtype, "dtypes differ")?;
        expect(input.order == out.order, "memory orders differ")?;
        input.order.iter().position(|&d| d == dim).ok_or_else(|| format!("there is no dim {dim}"))
    }

    pub(super) fn fold(&self, kind: ReduceKind, id: ValueId) -> Result<Fold, String> {
        let dtype = self.value(id).dtype;
        Fold::new(kind, dtype).ok_or_else(|| format!("{kind} has no meaning for {dtype}"))
    }

    /// What to do, with the step of each action, and the scratch it takes.
    pub(super) fn actions(
        &self,
        peers: &mut Peers<impl Comm>,
    ) -> Result<(Vec<(usize, Action)>, usize), String> {
        let (mut actions, mut scratch_bytes) = (Vec::new(), 0);
        // By the step that awaits it.
        let mut under_way = BTreeMap::new();
        let awaits = self.block.awaits();
        let mut bodies = self.plan.bodies.iter();
        let Site { mesh, processor, .. } = *self.site;
        for (index, step) in self.block.steps.iter().enumerate() {
            // There is a plan for every loop, also for those of others.
            let plan = if let Form::Loop(_) = step.form { bodies.next() } else { None };
            if !owns(mesh, processor, &step.owners) {
                continue;
            }
            let action = match &step.form {
                Form::Loop(form) => plan.ok_or("a loop has no plan".to_owned()).and_then(|plan| {
                    let (repeat, scratch) = self.repeat(form, step, plan, peers)?;
                    scratch_bytes = scratch.max(scratch_bytes);
                    Ok(Some(Action::Loop(Box::new(repeat))))
                }),
                Form::Await(_) => {
                    let begun = under_way.remove(&index);
                    let known = begun.is_some() || self.site.inspects;
                    expect(known, "it was not begun").map(|()| begun.map(Action::Await))
                }
                form => match form.axes() {
                    None => self.local(step),
                    Some(axes) => {
                        let until = step.outs.first().and_then(|out| awaits[out.index()]);
                        let until = until.filter(|_| !self.site.inspects);
                        let action = self.meeting(index, axes, until.is_some(), peers);
                        action.map(|action| {
                            let begun = until.zip(action.begun());
                            under_way.extend(begun.map(|(at, begun)| (at, Arc::clone(begun))));
                            Some(action)
                        })
                    }
                },
            };
            let action = action.map_err(|problem| {
                format!("cannot prepare {}: {problem}", describe(self.name, self.block, index))
            })?;
            if let Some(action) = action {
                scratch_bytes = action.scratch_bytes().max(scratch_bytes);
                actions.push((index, action));
            }
        }
        Ok((actions, scratch_bytes))
    }

    /// What to do for a step that meets nobody; `None` if the plan has made it nothing.
    fn local(&self, step: &Step) -> Result<Option<Action>, String> {
        match step.form {
            Form::Read(form) => {
                let out = step.outs[0];
                let (buffer, slice) = self.variable(form.variable, out)?;
                Ok(copy(&slice, buffer, self.value(out), self.at(out)))
            }
            Form::Write(form) => {
                let input = step.inputs[0].value;
                let (buffer, slice) = self.variable(form.variable, input)?;
                Ok(copy(self.value(input), self.at(input), &slice, buffer))
            }
            _ => {
                let Site { mesh, processor, seed, .. } = *self.site;
                let kernel = cpu::prepare(self.block, step, mesh, processor, seed)?;
                Ok(Some(Action::Kernel(kernel.ok_or("it has no kernel")?)))
            }
        }
    }

    /// A variable's buffer and what is in it, which a value has to be but for its memory order.
    fn variable(&self, id: VariableId, value: ValueId) -> Result<(*mut u8, Value), String> {
        let (value, known) = (self.value(value), self.site.variables.get(id.index()));
        let known = known.ok_or_else(|| format!("there is no {id:?}"))?;
        let fits = known.extents == value.extents && known.dtype == value.dtype;
        expect(fits, &format!("{value} is not of the type of `{}`", known.name))?;
        let slice = Value::new(known.dtype, known.extents.iter().copied());
        Ok((self.site.store.variables[id.index()].pointer(), slice))
    }

    /// The fetches that the processor delivers.
    fn fetches(
        &self,
        program: &Program,
        here: impl Fn(&Slot) -> bool,
    ) -> Result<Vec<Crossing>, String> {
        let crossings = program.left().enumerate().map(|(index, (slot, value))| {
            let border = self.border(slot, value)?;
            Ok(here(slot).then(|| Crossing { index, border, value: self.at(value) }))
        });
        crossings.filter_map(Result::transpose).collect()
    }

    /// Where a feed's or fetch's slice lies in the caller's array.
    fn border(&self, slot: &Slot, value: ValueId) -> Result<Border, String> {
        let Site { mesh, processor, .. } = *self.site;
        let value = self.value(value);
        let parts = slot.split.iter().map(|axes| mesh.group_size(axes));
        let whole = value.extents.iter().zip(parts).map(|(extent, parts)| extent * parts);
        let rank = slot.shape.len();
        let fits = (value.extents.len(), slot.split.len()) == (rank, rank)
            && whole.eq(slot.shape.iter().copied());
        expect(fits, &format!("slot `{}` does not fit its value {value}", slot.name))?;
        Ok(Border::of_slot(slot, value, mesh, processor))
    }
}

/// Copies a value into another that differs in place and memory order only; `None` if in neither.
fn copy(from: &Value, source: *const u8, to: &Value, target: *mut u8) -> Option<Action> {
    if source == target.cast_const() && from.order == to.order {
        return None;
    }
    let element = to.dtype.size();
    let strides = from.strides().into_iter().zip(to.strides());
    let dims = (to.extents.iter().zip(strides))
        .map(|(&extent, (from, to))| (extent, (from * element) as isize, (to * element) as isize));
    Some(Action::Copy { walk: Walk::new(dims, element), from: source, to: target })
}
