//! What is the same in all rounds of a loop is computed once, before it.
//!
//! A step leaves the body if all it reads is the same in every round, unless it makes more bytes than
//! it reads and too many to stay in cache: those would have to be kept, and fetched, through all
//! rounds. So a parameter that is gathered for a round stays gathered for a round alone. What is
//! generated is repeated rather than kept. A barrier keeps its place, and what comes behind it.

use super::compact;
use crate::names::Mesh;
use crate::program::{Node, Program, Rounds, Slot, Step, Value, ValueId};

/// Bytes that are cheap to keep.
const SMALL: usize = 1 << 20;

pub(super) fn run(program: &mut Program, _: &Mesh) {
    loops(program);
}

fn loops(program: &mut Program) {
    let steps = Vec::with_capacity(program.steps.len());
    for mut node in std::mem::replace(&mut program.steps, steps) {
        if let Step::Loop(rounds) = &mut node.step {
            loops(&mut rounds.body);
            hoist(program, rounds);
        }
        program.steps.push(node);
    }
}

/// Moves steps of a loop's body to the end of the program that the loop is about to join. What is
/// generated stays, and is generated there once more for what leaves; some of it nobody needs then.
fn hoist(program: &mut Program, rounds: &mut Rounds) {
    let Rounds { body, carried, sliced, captured, .. } = rounds;
    let given = &body.feeds[carried.len() + sliced.len()..];
    let mut outside: Vec<Option<ValueId>> = vec![None; body.values.len()];
    for (slot, &outer) in given.iter().zip(&*captured) {
        outside[slot.value.index()] = Some(outer);
    }
    let steps = std::mem::take(&mut body.steps);
    let generated = vec![None; body.values.len()];
    let mut leaving = Leaving { program, body, outside, generated };
    let mut moved = Vec::new();
    for node in steps {
        let same = node.step.inputs().iter().all(|input| leaving.is_same(*input));
        if !same || !may_leave(&node, &leaving.body.values) {
            leaving.body.steps.push(node);
        } else if let Step::Generate { out, .. } = &node.step {
            leaving.generated[out.index()] = Some(leaving.body.steps.len());
            leaving.body.steps.push(node);
        } else {
            moved.extend(leaving.leave(node));
        }
    }
    moved.retain(|(inner, _)| is_met(body, *inner));
    for (inner, outer) in moved {
        captured.push(outer);
        let slot = Slot::whole(inner, &body.value(inner).extents);
        // The position comes last.
        body.feeds.insert(body.feeds.len() - 1, slot);
    }
    compact(body);
}

/// A program and the body of a loop at its end.
struct Leaving<'p> {
    program: &'p mut Program,
    body: &'p mut Program,
    /// By the body's values: what they are in the program.
    outside: Vec<Option<ValueId>>,
    /// By the body's values: the step of the body that generates the same in every round.
    generated: Vec<Option<usize>>,
}

impl Leaving<'_> {
    /// Whether a value of the body is the same in every round.
    fn is_same(&self, value: ValueId) -> bool {
        self.outside[value.index()].is_some() || self.generated[value.index()].is_some()
    }

    /// Puts a step at the end of the program, behind what it reads; gives its outs in the body and
    /// there.
    fn leave(&mut self, mut node: Node) -> Vec<(ValueId, ValueId)> {
        for input in node.step.inputs() {
            let known = self.outside[input.index()].is_some();
            if let Some(step) = self.generated[input.index()].filter(|_| !known) {
                self.leave(self.body.steps[step].clone());
            }
        }
        let Self { program, body, outside, .. } = self;
        node.step.each_input(|value| *value = outside[value.index()].unwrap_or(*value));
        let mut made = Vec::new();
        node.step.each_out(|value| {
            let outer = ValueId(program.values.len() as u32);
            program.values.push(body.value(*value).clone());
            outside[value.index()] = Some(outer);
            made.push((*value, outer));
            *value = outer;
        });
        program.origins.push(body.origins[node.origin].clone());
        node.origin = program.origins.len() - 1;
        program.steps.push(node);
        made
    }
}

fn may_leave(node: &Node, values: &[Value]) -> bool {
    let bytes = |ids: &[ValueId]| ids.iter().map(|id| values[id.index()].bytes()).sum::<usize>();
    let stays = matches!(node.step, Step::Barrier { .. } | Step::Read { .. } | Step::Write { .. });
    let made = bytes(node.step.outs());
    !stays && node.owners.is_empty() && (made <= SMALL || made <= bytes(&node.step.inputs()))
}

fn is_met(body: &Program, value: ValueId) -> bool {
    let mut fetched = body.fetches.iter().map(|slot| slot.value);
    body.steps.iter().any(|node| node.step.inputs().contains(&value)) || fetched.any(|v| v == value)
}
