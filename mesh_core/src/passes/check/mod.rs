//! The plan checker: it replays a program with names instead of numbers and believes nothing that
//! the planner believes.
//!
//! Memory is the arena's bytes and one buffer per variable. A stretch of memory holds a set of
//! *names*, the values whose elements it holds right now:
//!
//! ```text
//!            { }          unknown: never filled, or partly overwritten
//!         /   |   \
//!   {%1}  {%2, %3}  {old var0}  …
//! ```
//!
//! Before the first step, variable `v` holds `{old v}`, the feeds' bytes hold the feeds, everything
//! else is unknown. A definition of `%x` at bytes `b` makes every stretch that meets `b` unknown and
//! lets `b` hold `{%x}`. A read of a variable's own buffer, or a reshape or barrier that stays where it is,
//! adds a name to a set. Programs have no branches, so sets never need to be joined.
//!
//! A plan is right if:
//!
//! * every place is aligned and inside the arena, or the buffer of a variable of the same size, in
//!   declared order, which all who define the value hold; feeds are in the arena;
//! * a step finds each of its inputs' names in exactly the bytes of that input's place, an await those
//!   of what it waited for, and a read finds `old v` in `v`;
//! * a step's outs do not overlap each other, nor its inputs, unless its form may work in place on an
//!   input of the same layout;
//! * from where a collective stands to where it is awaited, no other step fills bytes of its inputs or
//!   outs;
//! * in the body of a loop, what [`loops`] says;
//! * at the end each written variable holds the value written, each other variable what it held
//!   before, and each fetch its value.

mod flight;
mod loops;

use self::flight::Flight;
use super::buffers::is_renamed;
use crate::program::forms::Loop;
use crate::program::{
    ALIGNMENT, Block, Form, Place, Plan, Problem, Program, Rule, Step, Value, ValueId, VariableId,
    VariableType,
};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Checks a plan of a verified program by the rules of the module comment.
///
/// # Errors
/// Every rule that is broken, with where.
pub fn check(
    program: &Program,
    plan: &Plan,
    variables: &[VariableType],
) -> Result<(), Vec<Problem>> {
    let problems = checked(&program.block, plan, variables, None, Vec::new());
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// A broken rule that belongs to no step.
fn anywhere(place: impl Into<String>, message: String) -> Problem {
    Problem { step: None, rule: Rule::Plan, place: place.into(), message }
}

/// Checks the plan of a block, which may be the body of a loop; `shared`: parameters that lie where results are stacked.
fn checked(
    block: &Block,
    plan: &Plan,
    variables: &[VariableType],
    of_loop: Option<&Loop>,
    shared: Vec<(usize, usize)>,
) -> Vec<Problem> {
    let (planned, values) = (plan.places.len(), block.values.len());
    if planned != values {
        return vec![anywhere("the plan", format!("{planned} places for {values} values"))];
    }
    let mut memory = Memory {
        block,
        plan,
        variables,
        arena: BTreeMap::new(),
        held: (0..variables.len() as u32)
            .map(|v| (Place::Variable(VariableId(v)), smallvec![Name::Old(VariableId(v))]))
            .collect(),
        of_loop,
        shared,
        awaits: block.awaits(),
        flights: Vec::new(),
    };
    let places = (0..values as u32).filter_map(|id| memory.place(ValueId(id)).err());
    let mut problems: Vec<Problem> = places.map(|problem| anywhere("the plan", problem)).collect();
    if !problems.is_empty() {
        return problems;
    }
    for (i, &param) in block.params.iter().enumerate() {
        problems.extend(memory.misplaced(i, param).map(|p| anywhere("the parameters", p)));
        memory.begin(param);
    }
    for (index, step) in block.steps.iter().enumerate() {
        let found = memory.step(step).into_iter();
        let found = found.chain(memory.strays(step)).chain(memory.moved(step));
        let found = found.chain(memory.disturbs(index, step));
        problems.extend(found.map(|message| {
            let (step, place) = (Some(index), block.caption(index));
            Problem { step, rule: Rule::Plan, place, message }
        }));
    }
    let end = memory.left().into_iter().chain(memory.end());
    problems.extend(end.map(|problem| anywhere("at the end", problem)));
    problems.extend(bodies(&memory));
    problems
}

/// The plans of loops' bodies, each by itself.
fn bodies(memory: &Memory<'_>) -> Vec<Problem> {
    let Memory { block, plan, .. } = memory;
    let count = block.loops().count();
    if count != plan.bodies.len() {
        let problem = format!("{} plans for {count} bodies", plan.bodies.len());
        return vec![anywhere("the plan", problem)];
    }
    let largest = plan.bodies.iter().map(|body| body.arena_bytes).max().unwrap_or_default();
    if largest > plan.arena_bytes || !plan.own_bytes().is_multiple_of(ALIGNMENT) {
        return vec![anywhere("the plan", "there is no room for the bodies".to_owned())];
    }
    let all = block.loops().zip(&plan.bodies);
    all.flat_map(|((step, form), plan)| {
        checked(&form.body, plan, &[], Some(form), memory.shared(step, form))
    })
    .map(|problem| Problem { place: format!("in a loop: {}", problem.place), ..problem })
    .collect()
}

/// Something that bytes can hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Value(ValueId),
    Old(VariableId),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value:?}"),
            Self::Old(variable) => write!(f, "old {variable:?}"),
        }
    }
}

type Names = SmallVec<[Name; 2]>;

struct Memory<'a> {
    block: &'a Block,
    plan: &'a Plan,
    variables: &'a [VariableType],
    /// Known stretches of the arena by first byte, with the byte after the last; disjoint.
    arena: BTreeMap<usize, (usize, Names)>,
    /// What is held elsewhere: by each variable's buffer, and in a body by the loop's values.
    held: BTreeMap<Place, Names>,
    /// The loop whose body the block is.
    of_loop: Option<&'a Loop>,
    /// The loop's slices that lie where it stacks something: parameters and results.
    shared: Vec<(usize, usize)>,
    /// [`Block::awaits`].
    awaits: Vec<Option<usize>>,
    /// Collectives that have begun.
    flights: Vec<Flight>,
}

impl Memory<'_> {
    fn at(&self, value: ValueId) -> Place {
        let place = self.plan.places[value.index()];
        let shared = |&&(i, _): &&(usize, usize)| place == Place::Param(i);
        self.shared.iter().find(shared).map_or(place, |&(_, i)| Place::Stacked(i))
    }

    fn bytes(&self, value: ValueId, begin: usize) -> Range<usize> {
        begin..begin + self.block.value(value).bytes()
    }

    fn place(&self, id: ValueId) -> Result<(), String> {
        let value = self.block.value(id);
        match self.at(id) {
            Place::Arena(begin) if begin % ALIGNMENT != 0 => {
                Err(format!("{id:?} is at byte {begin}, which is not aligned"))
            }
            Place::Arena(begin) if begin.saturating_add(value.bytes()) > self.plan.own_bytes() => {
                Err(format!("{id:?} at byte {begin} ends beyond the arena"))
            }
            Place::Arena(_) => Ok(()),
            Place::Variable(variable) => {
                let found = self.variables.get(variable.index());
                let size = found.map(|v| v.extents.iter().product::<usize>() * v.dtype.size());
                match size == Some(value.bytes()) && value.in_order() {
                    true => Ok(()),
                    false => Err(format!("{id:?} does not fit {variable:?}")),
                }
            }
            place => self.fits(id, place),
        }
    }

    fn names(&mut self, value: ValueId) -> Option<&mut Names> {
        match self.at(value) {
            Place::Arena(begin) => {
                let end = self.bytes(value, begin).end;
                let (found, names) = self.arena.get_mut(&begin)?;
                (*found == end).then_some(names)
            }
            place => self.held.get_mut(&place),
        }
    }

    fn define(&mut self, value: ValueId) {
        let names = smallvec![Name::Value(value)];
        match self.at(value) {
            Place::Arena(begin) => {
                let Range { start, end } = self.bytes(value, begin);
                let before = self.arena.range(..end).rev();
                let met: Vec<_> =
                    before.take_while(|(_, (e, _))| *e > start).map(|(&b, _)| b).collect();
                met.iter().for_each(|begin| drop(self.arena.remove(begin)));
                self.arena.insert(start, (end, names));
            }
            place => drop(self.held.insert(place, names)),
        }
    }

    /// A parameter is there before the first step.
    fn begin(&mut self, param: ValueId) {
        match self.at(param) {
            place @ (Place::Param(_) | Place::Stacked(_)) => {
                self.held.entry(place).or_default().push(Name::Value(param));
            }
            _ => self.define(param),
        }
    }

    fn expect(&mut self, value: ValueId) -> Result<(), String> {
        let wanted = Name::Value(value);
        let held = self.names(value).map(|names| names.clone()).unwrap_or_default();
        if held.contains(&wanted) { Ok(()) } else { Err(missing(wanted, self.at(value), &held)) }
    }

    fn overlap(&self, one: ValueId, other: ValueId) -> bool {
        match (self.at(one), self.at(other)) {
            (Place::Arena(a), Place::Arena(b)) => {
                let (a, b) = (self.bytes(one, a), self.bytes(other, b));
                a.start < b.end && b.start < a.end
            }
            (a, b) => a == b,
        }
    }

    fn step(&mut self, step: &Step) -> Vec<String> {
        if let Form::Await(form) = &step.form {
            // Inputs may be gone: a sum may be made in place.
            return form.begun(step).filter_map(|value| self.expect(value).err()).collect();
        }
        let mut problems: Vec<String> =
            step.reads().filter_map(|input| self.expect(input).err()).collect();
        match step.form {
            Form::Read(form) => {
                let place = Place::Variable(form.variable);
                let held = self.held.entry(place).or_default();
                if !held.contains(&Name::Old(form.variable)) {
                    problems.push(missing(Name::Old(form.variable), place, held));
                }
                if self.plan.places[step.outs[0].index()] == place {
                    held.push(Name::Value(step.outs[0]));
                    return problems;
                }
            }
            Form::Write(form) => {
                let (place, input) = (Place::Variable(form.variable), step.inputs[0].value);
                if self.at(input) != place {
                    self.held.insert(place, smallvec![Name::Value(input)]);
                }
                return problems;
            }
            _ if self.renames(step) => {
                for (input, &out) in step.reads().zip(&step.outs) {
                    if !is_renamed(self.block, step, input, out) {
                        problems.push(format!("{out:?} is not {input:?} in declared order"));
                    }
                    if let Some(names) = self.names(input) {
                        names.push(Name::Value(out));
                    }
                }
                return problems;
            }
            _ => {}
        }
        for (i, &out) in step.outs.iter().enumerate() {
            for (j, input) in step.reads().enumerate() {
                if self.overlap(out, input) && !self.may_share(step, i, j) {
                    problems.push(format!("{out:?} overwrites {input:?} while it is read"));
                }
            }
            for &other in &step.outs[..i] {
                if self.overlap(out, other) {
                    problems.push(format!("{out:?} and {other:?} overlap"));
                }
            }
        }
        step.outs.iter().for_each(|&out| self.define(out));
        problems
    }

    /// Whether a step makes its outs names for bytes of its inputs, and moves nothing.
    fn renames(&self, step: &Step) -> bool {
        let mut pairs = step.reads().zip(&step.outs);
        step.form.renames() && pairs.all(|(input, &out)| self.at(input) == self.at(out))
    }

    /// Whether out `i` of a step may lie on its input `j`.
    fn may_share(&self, step: &Step, i: usize, j: usize) -> bool {
        let (input, out) = (step.inputs[j].value, step.outs[i]);
        let layout = |id: ValueId| {
            let Value { dtype, extents, order } = self.block.value(id);
            (dtype.size(), extents, order)
        };
        step.form.may_work_in_place(&step.inputs, i, j)
            && self.at(input) == self.at(out)
            && layout(input) == layout(out)
    }

    /// Outs in buffers of variables that not all who run the step hold.
    fn strays(&self, step: &Step) -> Vec<String> {
        let held = |variable: &VariableId| {
            let holders = &self.variables[variable.index()].owners;
            holders.iter().all(|owner| step.owners.contains(owner))
        };
        let stray = |out: &ValueId| match self.at(*out) {
            Place::Variable(variable) if !held(&variable) => {
                Some(format!("{out:?} is in {variable:?}, which not all have who make it"))
            }
            _ => None,
        };
        step.outs.iter().filter_map(stray).collect()
    }

    /// What is not there at the end of the block.
    fn end(&mut self) -> Vec<String> {
        let mut due: Vec<Name> =
            (0..self.variables.len() as u32).map(|v| Name::Old(VariableId(v))).collect();
        for step in &self.block.steps {
            if let Form::Write(form) = step.form {
                due[form.variable.index()] = Name::Value(step.inputs[0].value);
            }
        }
        let mut problems = Vec::new();
        for (index, wanted) in (0..).zip(due) {
            let place = Place::Variable(VariableId(index));
            let held = self.held.get(&place).map(|names| &names[..]).unwrap_or_default();
            if !held.contains(&wanted) {
                problems.push(missing(wanted, place, held));
            }
        }
        let results = if self.of_loop.is_some() { &[][..] } else { &self.block.results };
        problems.extend(results.iter().filter_map(|&result| self.expect(result).err()));
        problems
    }
}

fn missing(wanted: Name, place: Place, held: &[Name]) -> String {
    let place = match place {
        Place::Arena(begin) => format!("byte {begin}"),
        Place::Variable(variable) => format!("{variable:?}"),
        Place::Param(i) => format!("parameter {i} of its loop"),
        Place::Stacked(i) => format!("result {i} of its loop"),
    };
    let held: Vec<_> = held.iter().map(ToString::to_string).collect();
    let held = if held.is_empty() { "nothing known".to_owned() } else { held.join(", ") };
    format!("{wanted} is not at {place}, which holds {held}")
}
