//! The verifier. This comment is the specification of a legal program.
//!
//! **Values.** Every extent is at least 1; the memory order is a permutation of the dims. Every
//! value is defined exactly once, by a feed or a step, and before its first use. Ids of values,
//! variables and origins are in range; axes are axes of the mesh, and no list names one twice.
//!
//! **Feeds and fetches.** Along every dim, the local extent times the group size of the axes it is
//! split over is the global size. An axis splits at most one dim.
//!
//! **Operands.** One label per dim, no label twice. All dims of one label have the same extent, and
//! result dim `i` has label `i`. An input that a form meets whole has label `i` for dim `i`.
//!
//! **Forms.** Each form's room, `program/forms/`, states its own rules.
//!
//! **Awaits.** An await names the inputs and outs of a collective that stands before it, and is run by
//! those who run that. Awaits stand in the order of their collectives, one each at most. Nobody uses the
//! outs before they are awaited.
//!
//! **Owners.** A step that only some processors run has axes and coordinates of the mesh, no axis
//! twice; it meets no group along such an axis. What it defines is theirs alone, what reduce_to
//! defines its root's, and only steps of no others use it, or a broadcast from that root. A read
//! is run by holders of the variable alone, a write by all of them and nobody else. A fetch is
//! everybody's. To the body of a loop, those that run the loop are everybody: its steps name them.
//!
//! **Writes.** At most one per variable.

mod awaits;
mod body;
mod owners;
#[cfg(test)]
mod tests;

use super::forms::{Legal, StepCx, check_axes, ensure};
use super::{Block, Form, Owners, Program, Slot, Step, Value, ValueId, VariableType};
use crate::names::{Axis, Mesh};
use std::fmt;

/// A rule that a program or its plan breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The step of the program's block that breaks it; `None` for values, feeds and fetches.
    pub step: Option<usize>,
    /// Which.
    pub rule: Rule,
    /// The step, value, feed or fetch, as messages call it: `step 3 contract (einsum at src/main.rs:7)`.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// The rules of a legal program, as the verifier's room states them, and of a right plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// Extents, memory orders.
    Values,
    /// Feeds, fetches, parameters and results.
    Border,
    /// Each value is defined once, and before it is used.
    Definitions,
    /// Labels of inputs.
    Operands,
    /// What the step's form says.
    Form,
    /// Where collectives are awaited.
    Awaits,
    /// Who runs what.
    Owners,
    /// Each variable is written once at most.
    Writes,
    /// Where values live.
    Plan,
}

/// Checks the rules of the module comment.
///
/// # Errors
/// Every rule that is broken, with where.
pub fn verify(
    program: &Program,
    mesh: &Mesh,
    variables: &[VariableType],
) -> Result<(), Vec<Problem>> {
    let mut verifier = Verifier::new(&program.block, mesh, variables);
    if verifier.values() {
        let slots = program.feeds.iter().map(|slot| ("feed", slot));
        let left = program.fetches.iter().chain(&program.probes).map(|slot| ("fetch", slot));
        verifier.border(slots.collect(), left.collect());
        verifier.block();
    }
    verifier.verdict()
}

/// As [`verify`], of the body of a loop that `owners` run.
pub(super) fn verify_body(body: &Block, mesh: &Mesh, owners: &Owners) -> Result<(), Vec<Problem>> {
    let mut verifier = Verifier::new(body, mesh, &[]);
    verifier.everybody = owners.clone();
    if verifier.values() {
        verifier.block();
    }
    verifier.verdict()
}

struct Verifier<'a> {
    block: &'a Block,
    mesh: &'a Mesh,
    variables: &'a [VariableType],
    problems: Vec<Problem>,
    defined: Vec<bool>,
    written: Vec<bool>,
    /// The processors that have each value.
    owners: Vec<Owners>,
    /// Those that run the block.
    everybody: Owners,
    /// [`Block::awaits`].
    awaits: Vec<Option<usize>>,
    /// The step that makes each value.
    makers: Vec<Option<usize>>,
    /// The collective awaited last.
    awaited: Option<usize>,
    /// The present step.
    at: usize,
}

impl<'a> Verifier<'a> {
    fn new(block: &'a Block, mesh: &'a Mesh, variables: &'a [VariableType]) -> Self {
        let count = block.values.len();
        Self {
            block,
            mesh,
            variables,
            problems: Vec::new(),
            defined: vec![false; count],
            written: vec![false; variables.len()],
            owners: vec![Owners::new(); count],
            everybody: Owners::new(),
            awaits: block.awaits(),
            makers: vec![None; count],
            awaited: None,
            at: 0,
        }
    }

    fn verdict(self) -> Result<(), Vec<Problem>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }

    /// Notes what is wrong somewhere.
    fn note(&mut self, rule: Rule, place: impl FnOnce() -> String, legal: Legal) {
        if let Err(message) = legal {
            self.problems.push(Problem { step: None, rule, place: place(), message });
        }
    }

    /// Whether all values are legal.
    fn values(&mut self) -> bool {
        for (index, value) in self.block.values.iter().enumerate() {
            self.note(Rule::Values, || format!("value %{index}"), check_value(value));
        }
        self.problems.is_empty()
    }

    /// The slots of parameters and results: one each.
    fn border(&mut self, feeds: Vec<(&str, &Slot)>, fetches: Vec<(&str, &Slot)>) {
        let block = self.block;
        for (ids, slots) in [(&block.params, feeds), (&block.results, fetches)] {
            let (values, count) = (ids.len(), slots.len());
            let legal = (values == count)
                .then_some(())
                .ok_or_else(|| format!("{count} slots for {values} values"));
            self.note(Rule::Border, || "the border".to_owned(), legal);
            for (&id, (kind, slot)) in ids.iter().zip(slots) {
                let legal = self.slot(slot, id);
                self.note(Rule::Border, || format!("{kind} {}", slot.name), legal);
            }
        }
    }

    fn slot(&self, slot: &Slot, id: ValueId) -> Legal {
        let value = self.block.values.get(id.index());
        let value = value.ok_or_else(|| format!("there is no value {id:?}"))?;
        let rank = value.extents.len();
        let (shape, split) = (&slot.shape, &slot.split);
        ensure!(
            shape.len() == rank && split.len() == rank,
            "{rank} dims, but {} global sizes and {} splits",
            shape.len(),
            split.len()
        );
        let all: Vec<Axis> = split.iter().flatten().copied().collect();
        check_axes(self.mesh, &all)?;
        for (dim, axes) in split.iter().enumerate() {
            let (local, parts) = (value.extents[dim], self.mesh.group_size(axes));
            ensure!(
                local.checked_mul(parts) == Some(shape[dim]),
                "dim {dim} is {parts} parts of {local}, but its global size is {}",
                shape[dim]
            );
        }
        Ok(())
    }

    /// Parameters, steps and results in order.
    fn block(&mut self) {
        let block = self.block;
        for (i, &param) in block.params.iter().enumerate() {
            let legal = self.define(param);
            if legal.is_ok() {
                self.owners[param.index()] = self.everybody.clone();
            }
            self.note(Rule::Definitions, || format!("parameter {i}"), legal);
        }
        for (index, step) in block.steps.iter().enumerate() {
            self.at = index;
            if let Err((rule, message)) = self.step(step) {
                let place = block.caption(index);
                self.problems.push(Problem { step: Some(index), rule, place, message });
            }
        }
        self.at = block.steps.len();
        for (i, &result) in block.results.iter().enumerate() {
            let legal = self.used(result);
            let legal = legal.map_err(|problem| (Rule::Definitions, problem)).and_then(|()| {
                let everybodys = owners::within(&self.everybody, &self.owners[result.index()]);
                let problem = || (Rule::Owners, format!("not everybody has {result:?}"));
                everybodys.then_some(()).ok_or_else(problem)
            });
            if let Err((rule, message)) = legal {
                self.note(rule, || format!("result {i}"), Err(message));
            }
        }
        for index in 0..self.defined.len() {
            if !self.defined[index] {
                let legal = Err("is never defined".to_owned());
                self.note(Rule::Definitions, || format!("value %{index}"), legal);
            }
        }
    }

    /// Every rule of a step, in an order in which each may rely on those before.
    fn step(&mut self, step: &Step) -> Result<(), (Rule, String)> {
        let of = |rule| move |message| (rule, message);
        let used = step.reads().try_for_each(|value| self.used(value));
        let made = step.outs.iter().map(|&value| self.define(value)).fold(used, Result::and);
        made.map_err(of(Rule::Definitions))?;
        step.outs.iter().for_each(|out| self.makers[out.index()] = Some(self.at));
        self.operands(step).map_err(of(Rule::Operands))?;
        let (block, mesh, variables) = (self.block, self.mesh, self.variables);
        let cx = StepCx { block, step, mesh, variables };
        step.form.rules().check(&cx).map_err(of(Rule::Form))?;
        self.written(step).map_err(of(Rule::Writes))?;
        self.awaited(step).map_err(of(Rule::Awaits))?;
        self.run_by(step).map_err(of(Rule::Owners))
    }

    fn define(&mut self, value: ValueId) -> Legal {
        let Some(defined) = self.defined.get_mut(value.index()) else {
            return Err(format!("there is no value {value:?}"));
        };
        ensure!(!*defined, "{value:?} is defined twice");
        *defined = true;
        Ok(())
    }

    fn used(&self, value: ValueId) -> Legal {
        ensure!(value.index() < self.defined.len(), "there is no value {value:?}");
        ensure!(self.defined[value.index()], "{value:?} is used before it is defined");
        let awaited = self.awaits[value.index()].is_none_or(|at| at <= self.at);
        ensure!(awaited, "{value:?} is used before it is awaited");
        Ok(())
    }

    fn operands(&self, step: &Step) -> Legal {
        let is_labelled = step.form.rules().is_labelled();
        for input in &step.inputs {
            let (id, dims) = (input.value, &input.dims);
            let rank = self.block.value(id).extents.len();
            ensure!(dims.len() == rank, "{id:?} has {rank} dims, but {} labels", dims.len());
            for (i, label) in dims.iter().enumerate() {
                ensure!(!dims[..i].contains(label), "{id:?} has label {label} twice");
            }
            ensure!(is_labelled || input.is_whole(), "{id:?} is not met whole");
        }
        Ok(())
    }

    fn written(&mut self, step: &Step) -> Legal {
        if let Form::Write(form) = &step.form {
            let written = &mut self.written[form.variable.index()];
            ensure!(!*written, "{:?} is written twice", form.variable);
            *written = true;
        }
        Ok(())
    }
}

fn check_value(value: &Value) -> Legal {
    ensure!(!value.extents.contains(&0), "has an empty extent: {:?}", value.extents.as_slice());
    let bytes = value.extents.iter().try_fold(value.dtype.size(), |n, &e| n.checked_mul(e));
    ensure!(bytes.is_some(), "is too large: {:?}", value.extents.as_slice());
    let mut order = value.order.clone();
    order.sort_unstable();
    let identity = order.iter().map(|&dim| usize::from(dim)).eq(0..value.extents.len());
    ensure!(identity, "has no memory order: {:?}", value.order.as_slice());
    Ok(())
}
