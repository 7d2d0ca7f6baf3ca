//! A block on all processors, one step after the other.

use std::collections::BTreeMap;

use super::super::comm::caught;
use super::super::prepare::describe;
use super::super::sync::Arc;
use crate::array::Array;
use crate::names::Mesh;
use crate::program::forms::{Loop, StepCx, put_slice, slice_of};
use crate::program::meaning::{Given, Here, Meaning, Numbers};
use crate::program::{Block, Step, ValueId, owns};

/// What variables become when the call ends, by processor and variable.
pub(super) type Writes = BTreeMap<(usize, usize), Arc<Numbers>>;

/// By processor; none of those that do not run a block.
type Each<T> = Vec<Option<T>>;

/// One processor's values; those that it has at the time.
type Values = Vec<Option<Arc<Numbers>>>;

/// A call.
pub(super) struct Lockstep<'a> {
    pub(super) mesh: &'a Mesh,
    pub(super) seed: u64,
    /// By processor and variable, as they were when the call started.
    pub(super) slices: &'a [Vec<Option<Array>>],
    pub(super) writes: Writes,
}

impl Lockstep<'_> {
    /// Runs a block on the processors that are given its parameters; gives its results on each. The error
    /// is for people.
    pub(super) fn run(
        &mut self,
        name: &str,
        block: &Block,
        given: Each<Vec<Arc<Numbers>>>,
    ) -> Result<Each<Vec<Arc<Numbers>>>, String> {
        let begun = |given: Vec<Arc<Numbers>>| {
            let mut values: Values = vec![None; block.values.len()];
            block.params.iter().zip(given).for_each(|(id, of)| values[id.index()] = Some(of));
            values
        };
        let mut values: Each<Values> = given.into_iter().map(|given| given.map(begun)).collect();
        let last_uses = last_uses(block);
        for (index, step) in block.steps.iter().enumerate() {
            self.step(block, step, &mut values).map_err(|(processor, problem)| {
                let place = describe(name, block, index);
                format!("processor {processor} failed in {place}: {problem}")
            })?;
            for values in values.iter_mut().flatten() {
                last_uses[index].iter().for_each(|id| values[id.index()] = None);
            }
        }
        let left = values.into_iter().enumerate().map(|(processor, values)| {
            let of = |values: Values| block.results.iter().map(|&id| held(&values, id)).collect();
            let left: Option<Result<_, _>> = values.map(of);
            left.transpose().map_err(|problem| format!("{problem} on processor {processor}"))
        });
        left.collect()
    }

    /// Does a step; a failure comes with the processor.
    fn step(
        &mut self,
        block: &Block,
        step: &Step,
        values: &mut Each<Values>,
    ) -> Result<(), (usize, String)> {
        if let Meaning::Loop(form) = step.form.meaning() {
            return self.repeat(form, block, step, values);
        }
        let axes = step.axes().map_or(&[][..], |axes| axes);
        for group in self.mesh.groups(axes) {
            let runs = |&processor: &usize| {
                values[processor].is_some() && owns(self.mesh, processor, &step.owners)
            };
            let runners = group.iter().filter(|member| runs(member)).count();
            if runners == 0 {
                continue;
            }
            if runners < group.len() {
                return Err((group[0], "not all members of its group are there".to_owned()));
            }
            let outs = caught(|| self.outs(block, step, &group, values)).and_then(|outs| outs);
            let outs = outs.map_err(|problem| (group[0], problem))?;
            for (&member, outs) in group.iter().zip(outs) {
                let Some(values) = &mut values[member] else { continue };
                for (id, out) in step.outs.iter().zip(outs) {
                    values[id.index()] = Some(Arc::new(out));
                }
            }
        }
        Ok(())
    }

    /// What each member of a group gets.
    fn outs(
        &mut self,
        block: &Block,
        step: &Step,
        group: &[usize],
        values: &Each<Values>,
    ) -> Result<Vec<Vec<Numbers>>, String> {
        let cx = StepCx { block, step, mesh: self.mesh, variables: &[] };
        let inputs = |&member: &usize| -> Result<Vec<_>, String> {
            let values = values[member].as_deref().unwrap_or_default();
            step.reads().map(|id| held(values, id)).collect()
        };
        let first = group[0];
        Ok(match step.form.meaning() {
            Meaning::Local(form) => {
                let inputs = inputs(&first)?;
                let given = inputs.iter().zip(&step.inputs);
                let given: Vec<_> = given.map(|(of, input)| Given::new(of, &input.dims)).collect();
                let here = Here { mesh: self.mesh, processor: first, seed: self.seed };
                vec![cx.rounded(form.apply(&cx, &here, &given))]
            }
            Meaning::Collective(form) => {
                let inputs: Vec<_> = group.iter().map(|m| inputs(m).unwrap_or_default()).collect();
                let given: Vec<Vec<&Numbers>> =
                    inputs.iter().map(|own| own.iter().map(|of| &**of).collect()).collect();
                form.meet(&cx, &given).into_iter().map(|outs| cx.rounded(outs)).collect()
            }
            Meaning::Read(form) => {
                let slice = self.slices[first].get(form.variable.index());
                let slice =
                    slice.and_then(Option::as_ref).ok_or("it does not hold the variable")?;
                vec![vec![slice.to_f64()]]
            }
            Meaning::Write(form) => {
                let written = inputs(&first)?.into_iter();
                let entries = written.map(|numbers| ((first, form.variable.index()), numbers));
                self.writes.extend(entries);
                Vec::new()
            }
            // A loop is no group's.
            Meaning::Nothing | Meaning::Loop(_) => Vec::new(),
        })
    }

    /// Runs a loop: each processor as long as its own condition says.
    fn repeat(
        &mut self,
        form: &Loop,
        block: &Block,
        step: &Step,
        values: &mut Each<Values>,
    ) -> Result<(), (usize, String)> {
        let (inputs, body) = (form.inputs(step), &*form.body);
        let mut states = Vec::new();
        for (processor, values) in values.iter().enumerate() {
            let runs = owns(self.mesh, processor, &step.owners);
            let values = values.as_ref().filter(|_| runs);
            let state = values.map(|values| State::new(form, block, step, values));
            states.push(state.transpose().map_err(|problem| (processor, problem))?);
        }
        for done in 0..form.count {
            let position = if form.reverse { form.count - 1 - done } else { done };
            let given = |state: &State| {
                let slices =
                    inputs.sliced.iter().zip(&state.sliced).zip(&body.params[form.slices()]);
                let slices = slices.map(|((input, of), &param)| {
                    let (stack, slice) = (block.value(input.value), body.value(param));
                    Arc::new(slice_of(stack, slice, position, of))
                });
                let counter = Arc::new(Numbers::from_elem(&[][..], position as f64));
                let carried = state.carried.iter().cloned().chain(slices);
                carried.chain(state.captured.iter().cloned()).chain([counter]).collect()
            };
            let running = |state: &Option<State>| state.as_ref().filter(|r| r.goes_on).map(given);
            let given: Vec<_> = states.iter().map(running).collect();
            if given.iter().all(Option::is_none) {
                break;
            }
            let left = self.run("its body", body, given).map_err(|problem| (0, problem))?;
            for (state, left) in states.iter_mut().zip(left) {
                let (Some(state), Some(left)) = (state, left) else { continue };
                state.goes_on =
                    !form.conditional || left.last().is_some_and(|again| is_true(again));
                for (i, stack) in form.stacks().zip(&mut state.stacked) {
                    let (whole, slice) = (block.value(step.outs[i]), body.value(body.results[i]));
                    put_slice(whole, slice, position, &left[i], stack);
                }
                state.carried = left.into_iter().take(form.carried).collect();
            }
        }
        for (values, state) in values.iter_mut().zip(states) {
            let (Some(values), Some(state)) = (values, state) else { continue };
            let outs = state.carried.into_iter().chain(state.stacked.into_iter().map(Arc::new));
            step.outs.iter().zip(outs).for_each(|(id, out)| values[id.index()] = Some(out));
        }
        Ok(())
    }
}

/// Where a processor is in a loop: what the next iteration is given, and what the loop has made.
struct State {
    carried: Vec<Arc<Numbers>>,
    sliced: Vec<Arc<Numbers>>,
    captured: Vec<Arc<Numbers>>,
    stacked: Vec<Numbers>,
    goes_on: bool,
}

impl State {
    /// Before the first iteration.
    fn new(form: &Loop, block: &Block, step: &Step, values: &Values) -> Result<Self, String> {
        let inputs = form.inputs(step);
        let all = |inputs: &[crate::program::Operand]| -> Result<Vec<_>, String> {
            inputs.iter().map(|input| held(values, input.value)).collect()
        };
        let condition = inputs.condition.map(|id| held(values, id)).transpose()?;
        let stacks = form.stacks().map(|i| Numbers::zeros(&block.value(step.outs[i]).extents[..]));
        Ok(Self {
            carried: all(inputs.carried)?,
            sliced: all(inputs.sliced)?,
            captured: all(inputs.captured)?,
            stacked: stacks.collect(),
            goes_on: condition.is_none_or(|condition| is_true(&condition)),
        })
    }
}

fn is_true(flag: &Numbers) -> bool {
    flag.first().is_some_and(|&flag| flag != 0.0)
}

/// A value that a processor has.
fn held(values: &[Option<Arc<Numbers>>], id: ValueId) -> Result<Arc<Numbers>, String> {
    let value = values.get(id.index()).cloned().flatten();
    value.ok_or_else(|| format!("{id:?} is not there"))
}

/// Per step, the values that nobody needs after it.
fn last_uses(block: &Block) -> Vec<Vec<ValueId>> {
    let mut seen: Vec<bool> = vec![false; block.values.len()];
    block.results.iter().for_each(|id| seen[id.index()] = true);
    let last = |step: &Step| {
        let unseen = |id: &ValueId| !std::mem::replace(&mut seen[id.index()], true);
        step.values().filter(unseen).collect()
    };
    let mut uses: Vec<Vec<ValueId>> = block.steps.iter().rev().map(last).collect();
    uses.reverse();
    uses
}
