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
//! * a step's outs do not overlap each other, nor its inputs, unless the step may work in place: a
//!   map on an input of the same layout met element by element, an all-reduce on its own input;
//! * from where a collective stands to where it is awaited, no other step fills bytes of its inputs or
//!   outs;
//! * in the body of a loop, what [`rounds`] says;
//! * at the end each written variable holds the value written, each other variable what it held
//!   before, and each fetch its value.

mod flight;
mod rounds;

use self::flight::Flight;
use crate::program::{
    ALIGNMENT, Node, Operand, Place, Plan, Program, Rounds, Slot, Step, Value, ValueId, VariableId,
    VariableType,
};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Checks a plan of a verified program by the rules of the module comment.
pub fn check(
    program: &Program,
    plan: &Plan,
    variables: &[VariableType],
) -> Result<(), Vec<String>> {
    checked(program, plan, variables, None)
}

/// Checks the plan of a program, which may be the body of a loop.
fn checked(
    program: &Program,
    plan: &Plan,
    variables: &[VariableType],
    rounds: Option<&Rounds>,
) -> Result<(), Vec<String>> {
    let (planned, values) = (plan.places.len(), program.values.len());
    if planned != values {
        return Err(vec![format!("{planned} places for {values} values")]);
    }
    let mut memory = Memory {
        program,
        plan,
        variables,
        arena: BTreeMap::new(),
        held: (0..variables.len() as u32)
            .map(|v| (Place::Variable(VariableId(v)), smallvec![Name::Old(VariableId(v))]))
            .collect(),
        rounds,
        awaits: program.awaits(),
        flights: Vec::new(),
    };
    let mut problems: Vec<String> =
        (0..values as u32).filter_map(|id| memory.place(ValueId(id)).err()).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    for (i, slot) in program.feeds.iter().enumerate() {
        problems.extend(memory.misfed(i, slot));
        memory.define(slot.value);
    }
    for (index, node) in program.steps.iter().enumerate() {
        let found = memory.step(&node.step).into_iter();
        let found = found.chain(memory.strays(node)).chain(memory.moved(&node.step));
        let found = found.chain(memory.disturbs(index, &node.step));
        problems.extend(found.map(|problem| format!("{}: {problem}", program.caption(index))));
    }
    problems.extend(memory.left());
    problems.extend(memory.end());
    problems.extend(bodies(program, plan));
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The plans of loops' bodies, each by itself.
fn bodies(program: &Program, plan: &Plan) -> Vec<String> {
    let loops = program.steps.iter().filter_map(|node| match &node.step {
        Step::Loop(rounds) => Some(&**rounds),
        _ => None,
    });
    let loops: Vec<_> = loops.collect();
    if loops.len() != plan.bodies.len() {
        return vec![format!("{} plans for {} bodies", plan.bodies.len(), loops.len())];
    }
    let largest = plan.bodies.iter().map(|body| body.arena_bytes).max().unwrap_or_default();
    if largest > plan.arena_bytes || !plan.own_bytes().is_multiple_of(ALIGNMENT) {
        return vec!["there is no room for the bodies".to_owned()];
    }
    let all = loops.iter().zip(&plan.bodies);
    all.map(|(rounds, plan)| checked(&rounds.body, plan, &[], Some(rounds)))
        .filter_map(Result::err)
        .flatten()
        .map(|problem| format!("in a loop: {problem}"))
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
    program: &'a Program,
    plan: &'a Plan,
    variables: &'a [VariableType],
    /// Known stretches of the arena by first byte, with the byte after the last; disjoint.
    arena: BTreeMap<usize, (usize, Names)>,
    /// What is held elsewhere: by each variable's buffer, and in a body by the loop's values.
    held: BTreeMap<Place, Names>,
    /// The loop whose body the program is.
    rounds: Option<&'a Rounds>,
    /// [`Program::awaits`].
    awaits: Vec<Option<usize>>,
    /// Collectives that have begun.
    flights: Vec<Flight>,
}

impl Memory<'_> {
    fn at(&self, value: ValueId) -> Place {
        self.plan.places[value.index()]
    }

    fn bytes(&self, value: ValueId, begin: usize) -> Range<usize> {
        begin..begin + self.program.value(value).bytes()
    }

    fn place(&self, id: ValueId) -> Result<(), String> {
        let value = self.program.value(id);
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
        if let Step::Await { begun, .. } = step {
            return self.awaited(begun);
        }
        let (inputs, outs) = (step.inputs(), step.outs());
        let mut problems: Vec<String> =
            inputs.iter().filter_map(|&input| self.expect(input).err()).collect();
        match step {
            Step::Read { variable, out } => {
                let place = Place::Variable(*variable);
                let held = self.held.entry(place).or_default();
                if !held.contains(&Name::Old(*variable)) {
                    problems.push(missing(Name::Old(*variable), place, held));
                }
                if self.plan.places[out.index()] == place {
                    held.push(Name::Value(*out));
                    return problems;
                }
            }
            Step::Write { variable, input } => {
                let place = Place::Variable(*variable);
                if self.at(*input) != place {
                    self.held.insert(place, smallvec![Name::Value(*input)]);
                }
                return problems;
            }
            Step::Reshape { input, out } if self.at(*input) == self.at(*out) => {
                let program = self.program;
                if [input, out].iter().any(|&&value| !program.value(value).in_order()) {
                    problems.push(format!("{out:?} is not {input:?} in declared order"));
                }
                if let Some(names) = self.names(*input) {
                    names.push(Name::Value(*out));
                }
                return problems;
            }
            Step::Barrier { inputs, outs }
                if inputs.iter().zip(outs).all(|(&input, &out)| self.at(input) == self.at(out)) =>
            {
                for (&input, &out) in inputs.iter().zip(outs) {
                    if let Some(names) = self.names(input) {
                        names.push(Name::Value(out));
                    }
                }
                return problems;
            }
            _ => {}
        }
        for (i, &out) in outs.iter().enumerate() {
            for (j, &input) in inputs.iter().enumerate() {
                if self.overlap(out, input) && !self.may_share(step, i, j) {
                    problems.push(format!("{out:?} overwrites {input:?} while it is read"));
                }
            }
            for &other in &outs[..i] {
                if self.overlap(out, other) {
                    problems.push(format!("{out:?} and {other:?} overlap"));
                }
            }
        }
        outs.iter().for_each(|&out| self.define(out));
        problems
    }

    /// Whether out `i` of a step may lie on its input `j`.
    fn may_share(&self, step: &Step, i: usize, j: usize) -> bool {
        let (input, out, elementwise) = match step {
            Step::Map { inputs, outs, .. } => {
                let Operand { value, dims } = &inputs[j];
                (*value, outs[i], dims.iter().map(|&label| usize::from(label)).eq(0..dims.len()))
            }
            Step::AllReduce { inputs, outs, .. } => (inputs[j], outs[i], i == j),
            _ => return false,
        };
        let layout = |id: ValueId| {
            let Value { dtype, extents, order } = self.program.value(id);
            (dtype.size(), extents, order)
        };
        elementwise && self.at(input) == self.at(out) && layout(input) == layout(out)
    }

    /// Outs in buffers of variables that not all who run the step hold.
    fn strays(&self, node: &Node) -> Vec<String> {
        let held = |variable: &VariableId| {
            let holders = &self.variables[variable.index()].owners;
            holders.iter().all(|owner| node.owners.contains(owner))
        };
        let stray = |out: &ValueId| match self.at(*out) {
            Place::Variable(variable) if !held(&variable) => {
                Some(format!("{out:?} is in {variable:?}, which not all have who make it"))
            }
            _ => None,
        };
        node.step.outs().iter().filter_map(stray).collect()
    }

    /// What is not there at the end of the program.
    fn end(&mut self) -> Vec<String> {
        let mut due: Vec<Name> =
            (0..self.variables.len() as u32).map(|v| Name::Old(VariableId(v))).collect();
        for node in &self.program.steps {
            if let Step::Write { variable, input } = node.step {
                due[variable.index()] = Name::Value(input);
            }
        }
        let mut problems = Vec::new();
        for (index, wanted) in (0..).zip(due) {
            let place = Place::Variable(VariableId(index));
            let held = self.held.get(&place).map(|names| &names[..]).unwrap_or_default();
            if !held.contains(&wanted) {
                problems.push(format!("at the end: {}", missing(wanted, place, held)));
            }
        }
        let fetches = if self.rounds.is_some() { &[][..] } else { &self.program.fetches };
        problems.extend(fetches.iter().filter_map(|slot| self.fetch(slot).err()));
        problems
    }

    fn fetch(&mut self, slot: &Slot) -> Result<(), String> {
        self.expect(slot.value).map_err(|problem| format!("fetch {}: {problem}", slot.name))
    }
}

fn missing(wanted: Name, place: Place, held: &[Name]) -> String {
    let place = match place {
        Place::Arena(begin) => format!("byte {begin}"),
        Place::Variable(variable) => format!("{variable:?}"),
        Place::Fed(i) => format!("feed {i} of its loop"),
        Place::Stacked(i) => format!("fetch {i} of its loop"),
    };
    let held: Vec<_> = held.iter().map(ToString::to_string).collect();
    let held = if held.is_empty() { "nothing known".to_owned() } else { held.join(", ") };
    format!("{wanted} is not at {place}, which holds {held}")
}
