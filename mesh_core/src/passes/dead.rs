//! Removes steps of which no write and no fetch needs a result.
//!
//! An all-reduce of several values keeps those that are needed, a sort its keys and what is needed of
//! what goes with them, a loop stacks only what is needed and takes only what its body then reads; a
//! map or barrier of which any out is needed keeps all. Feeds of a function stay: they are part of
//! its signature. So does what a loop carries.

use super::compact;
use crate::names::Mesh;
use crate::program::{Program, Rounds, Slot, Step, ValueId};

pub(super) fn run(program: &mut Program, _mesh: &Mesh) {
    steps(program);
}

/// As the pass, for passes that leave dead steps.
pub(super) fn steps(program: &mut Program) {
    let mut needed = vec![false; program.values.len()];
    program.fetches.iter().for_each(|slot| needed[slot.value.index()] = true);
    for node in program.steps.iter_mut().rev() {
        if let Step::AllReduce { inputs, outs, .. } = &mut node.step {
            let mut kept =
                outs.iter().map(|out| needed[out.index()]).collect::<Vec<_>>().into_iter();
            inputs.retain(|_| kept.next().unwrap_or_default());
            outs.retain(|out| needed[out.index()]);
        }
        if let Step::Loop(rounds) = &mut node.step {
            prune(rounds, &needed);
        }
        if let Step::Sort { inputs, outs, .. } = &mut node.step {
            let needs = |(i, out): (usize, &ValueId)| i == 0 || needed[out.index()];
            let kept: Vec<bool> = outs.iter().enumerate().map(needs).collect();
            let (mut of_inputs, mut of_outs) = (kept.iter(), kept.iter());
            inputs.retain(|_| of_inputs.next().is_some_and(|kept| *kept));
            outs.retain(|_| of_outs.next().is_some_and(|kept| *kept));
        }
        let step = &node.step;
        if step.has_effect() || step.outs().iter().any(|out| needed[out.index()]) {
            step.inputs().iter().for_each(|input| needed[input.index()] = true);
        }
    }
    program.steps.retain(|node| {
        node.step.has_effect() || node.step.outs().iter().any(|out| needed[out.index()])
    });
    compact(program);
}

/// Drops what a loop stacks for nobody, and then what its body does not read.
fn prune(rounds: &mut Rounds, needed: &[bool]) {
    let carried = rounds.carried.len();
    let keeps: Vec<bool> = (rounds.outs.iter().enumerate())
        .map(|(i, out)| i < carried || needed[out.index()])
        .collect();
    let mut kept = keeps.iter().copied();
    rounds.outs.retain(|_| kept.next().unwrap_or(true));
    let mut kept = keeps.iter().copied();
    rounds.body.fetches.retain(|_| kept.next().unwrap_or(true));
    steps(&mut rounds.body);
    let mut read = vec![false; rounds.body.values.len()];
    let fetched = rounds.body.fetches.iter().map(|slot| slot.value);
    let inputs = rounds.body.steps.iter().flat_map(|node| node.step.inputs());
    fetched.chain(inputs).for_each(|value| read[value.index()] = true);
    let mut fed = rounds.body.feeds[carried..].iter().map(|slot: &Slot| read[slot.value.index()]);
    rounds.sliced.retain(|_| fed.next().unwrap_or(true));
    rounds.captured.retain(|_| fed.next().unwrap_or(true));
    let (mut index, last) = (0, rounds.body.feeds.len() - 1);
    rounds.body.feeds.retain(|slot| {
        let keep = index < carried || index == last || read[slot.value.index()];
        index += 1;
        keep
    });
    compact(&mut rounds.body);
}
