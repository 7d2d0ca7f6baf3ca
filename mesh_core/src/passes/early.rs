//! Runs what frees more than it takes as soon as it can.
//!
//! A reduction of what nobody else uses (a gradient that is reduced and scattered, a sum) moves up
//! behind the step that makes its input. So the large value does not live until the place where the
//! small one is needed: gradients of sharded variables never lie side by side.
//!
//! So does a map that takes over a product's result (a bias, an activation, an optimizer's update), if
//! its other inputs are there and its outs can take their memory: gradients do not live side by side,
//! and the map finds the result in a cache. Everything else keeps its place.

use super::compact;
use super::uses::Uses;
use crate::program::{Block, Form, Step, ValueId};

pub(super) fn run(block: &mut Block) {
    let uses = Uses::new(block);
    // Steps that follow each step, by its old position; before the first step nothing is made.
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); block.steps.len()];
    let mut place: Vec<Option<usize>> = vec![None; block.values.len()];
    let mut stays = vec![true; block.steps.len()];
    for (position, step) in block.steps.iter().enumerate() {
        let made = step.reads().filter_map(|input| place[input.index()]).max();
        let mut at = position;
        let moves =
            |&made: &usize| frees(block, &uses, step) || follows(block, &uses, position, made);
        if let Some(made) = made.filter(moves) {
            stays[position] = false;
            behind[made].push(position);
            at = made;
        }
        step.outs.iter().for_each(|out| place[out.index()] = Some(at));
    }
    let mut old: Vec<Option<Step>> =
        std::mem::take(&mut block.steps).into_iter().map(Some).collect();
    for (position, followers) in behind.iter().enumerate() {
        let own = stays[position].then_some(position);
        let here = own.iter().chain(followers).filter_map(|&position| old[position].take());
        block.steps.extend(here);
    }
    compact(block);
}

/// Whether a step makes less of what nobody else uses, on whatever mesh.
fn frees(block: &Block, uses: &Uses, step: &Step) -> bool {
    let less = matches!(step.form, Form::Reduce(_) | Form::ReduceScatter(_));
    less && uses.is_taken_over(block, step.inputs[0].value)
}

/// Whether the step at `position` is a map that takes over the result of the product at `made`, and
/// needs no more memory behind it: what it makes is no more than what nobody reads any more then.
/// The old value of a variable is to be among that, since the new one lies in its place.
fn follows(block: &Block, uses: &Uses, position: usize, made: usize) -> bool {
    let [product, map] = [made, position].map(|at| &block.steps[at]);
    let (Form::Contract(_), Form::Map(_)) = (&product.form, &map.form) else { return false };
    let is_old = |input: ValueId| {
        let maker = uses.maker[input.index()].map(|maker| &block.steps[maker].form);
        matches!(maker, Some(Form::Read(_)))
    };
    let dies = |input: ValueId| {
        let mut users = uses.users[input.index()].iter();
        !uses.fetched[input.index()] && users.all(|&user| user <= made || user == position)
    };
    let bytes = |value: ValueId| block.value(value).bytes();
    let mut read: Vec<_> = map.reads().collect();
    read.sort_unstable();
    read.dedup();
    let freed: usize = read.iter().copied().filter(|&input| dies(input)).map(bytes).sum();
    let needed: usize = map.outs.iter().copied().map(bytes).sum();
    uses.is_taken_over(block, product.outs[0])
        && read.contains(&product.outs[0])
        && read.iter().all(|&input| !is_old(input) || dies(input))
        && needed <= freed
}
