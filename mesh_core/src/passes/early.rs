//! Runs what frees more than it takes as soon as it can.
//!
//! A reduction of what nobody else uses (a gradient that is reduced and scattered, a sum) moves up
//! behind the step that makes its input. So the large value does not live until the place where the
//! small one is needed: gradients of sharded variables never lie side by side.
//!
//! So does a map that takes over a product's result (a bias, an activation, an optimizer's update), if
//! its other inputs are there and its outs can take their memory: gradients do not live side by side,
//! and the executor may do the map while the result is in cache. Everything else keeps its place.

use super::compact;
use super::uses::Uses;
use crate::names::Mesh;
use crate::program::{Node, Program, Step, ValueId};

pub(super) fn run(program: &mut Program, _: &Mesh) {
    let uses = Uses::new(program);
    // Steps that follow each step, by its old position; before the first step nothing is made.
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); program.steps.len()];
    let mut place: Vec<Option<usize>> = vec![None; program.values.len()];
    let mut stays = vec![true; program.steps.len()];
    for (position, node) in program.steps.iter().enumerate() {
        let made = node.step.inputs().iter().filter_map(|input| place[input.index()]).max();
        let mut at = position;
        let moves = |&made: &usize| {
            frees(program, &uses, &node.step) || follows(program, &uses, position, made)
        };
        if let Some(made) = made.filter(moves) {
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

/// Whether the step at `position` is a map that takes over the result of the product at `made`, and
/// needs no more memory behind it: what it makes is no more than what nobody reads any more then.
/// The old value of a variable is to be among that, since the new one lies in its place.
fn follows(program: &Program, uses: &Uses, position: usize, made: usize) -> bool {
    let [product, map] = [made, position].map(|at| &program.steps[at].step);
    let (Step::Contract { out, .. }, Step::Map { inputs, outs, .. }) = (product, map) else {
        return false;
    };
    let is_old = |input: ValueId| {
        let maker = uses.maker[input.index()].map(|maker| &program.steps[maker].step);
        matches!(maker, Some(Step::Read { .. }))
    };
    let dies = |input: ValueId| {
        let mut users = uses.users[input.index()].iter();
        !uses.fetched[input.index()] && users.all(|&user| user <= made || user == position)
    };
    let bytes = |value: ValueId| program.value(value).bytes();
    let mut read: Vec<_> = inputs.iter().map(|input| input.value).collect();
    read.sort_unstable();
    read.dedup();
    let freed: usize = read.iter().copied().filter(|&input| dies(input)).map(bytes).sum();
    let needed: usize = outs.iter().copied().map(bytes).sum();
    uses.is_taken_over(program, *out)
        && read.contains(out)
        && read.iter().all(|&input| !is_old(input) || dies(input))
        && needed <= freed
}
