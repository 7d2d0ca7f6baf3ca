//! Runs what frees more than it takes as soon as it can.
//!
//! A reduction of what nobody else uses (a gradient that is reduced and scattered, a sum) moves up
//! behind the step that makes its input. So the large value does not live until the place where the
//! small one is needed: gradients of sharded variables never lie side by side. Everything else keeps
//! its place.

use super::compact;
use super::uses::Uses;
use crate::names::Mesh;
use crate::program::{Node, Program, Step};

pub(super) fn run(program: &mut Program, _: &Mesh) {
    let uses = Uses::new(program);
    // Steps that follow each step, by its old position; before the first step nothing is made.
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); program.steps.len()];
    let mut place: Vec<Option<usize>> = vec![None; program.values.len()];
    let mut stays = vec![true; program.steps.len()];
    for (position, node) in program.steps.iter().enumerate() {
        let made = node.step.inputs().iter().filter_map(|input| place[input.index()]).max();
        let mut at = position;
        if let Some(made) = made.filter(|_| frees(program, &uses, &node.step)) {
            stays[position] = false;
            behind[made].push(position);
            at = made;
        }
        node.step.outs().iter().for_each(|out| place[out.index()] = Some(at));
    }
    let mut old: Vec<Option<Node>> =
        std::mem::take(&mut program.steps).into_iter().map(Some).collect();
    for (position, followers) in behind.iter().enumerate() {
        let own = stays[position].then_some(position);
        let here = own.iter().chain(followers).filter_map(|&position| old[position].take());
        program.steps.extend(here);
    }
    compact(program);
}

/// Whether a step makes less of what nobody else uses, on whatever mesh.
fn frees(program: &Program, uses: &Uses, step: &Step) -> bool {
    let input = match step {
        Step::Reduce { input, .. } => input.value,
        Step::ReduceScatter { input, .. } => *input,
        _ => return false,
    };
    uses.is_taken_over(program, input)
}
