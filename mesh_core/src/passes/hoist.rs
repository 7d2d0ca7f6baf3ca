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

/// Moves steps of a loop's body to the end of the program that the loop is about to join. Some that
/// nobody needs are left.
fn hoist(program: &mut Program, rounds: &mut Rounds) {
    let Rounds { body, carried, sliced, captured, .. } = rounds;
    let given = &body.feeds[carried.len() + sliced.len()..];
    let mut outside: Vec<Option<ValueId>> = vec![None; body.values.len()];
    for (slot, &outer) in given.iter().zip(&*captured) {
        outside[slot.value.index()] = Some(outer);
    }
    let mut moved = Vec::new();
    for mut node in std::mem::take(&mut body.steps) {
        let same = node.step.inputs().iter().all(|input| outside[input.index()].is_some());
        if !same || !may_leave(&node, &body.values) {
            body.steps.push(node);
            continue;
        }
        let is_repeated = matches!(node.step, Step::Generate { .. });
        if is_repeated {
            body.steps.push(node.clone());
        }
        node.step.each_input(|value| *value = outside[value.index()].unwrap_or(*value));
        node.step.each_out(|value| {
            let outer = ValueId(program.values.len() as u32);
            program.values.push(body.value(*value).clone());
            outside[value.index()] = Some(outer);
            moved.extend((!is_repeated).then_some((*value, outer)));
            *value = outer;
        });
        program.origins.push(body.origins[node.origin].clone());
        node.origin = program.origins.len() - 1;
        program.steps.push(node);
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
