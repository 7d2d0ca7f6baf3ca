//! Runs what frees more than it takes as soon as it can.
//!
//! A reduction of what nobody else uses (a gradient that is reduced and scattered, a sum) moves up
//! behind the step that makes its input. So the large value does not live until the place where the
//! small one is needed: gradients of sharded variables never lie side by side. Everything else keeps
//! its place.

use super::{Program, compact};
use crate::names::Mesh;
use crate::program::{Node, Step};

pub(super) fn run(program: &mut Program, _: &Mesh) {
    let moves = Moves::new(program);
    // Steps that follow each step, by its old position; before the first step nothing is made.
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); program.steps.len()];
    let mut place: Vec<Option<usize>> = vec![None; program.values.len()];
    let mut stays = vec![true; program.steps.len()];
    for (position, node) in program.steps.iter().enumerate() {
        let made = node.step.inputs().iter().filter_map(|input| place[input.index()]).max();
        let mut at = position;
        if let Some(made) = made.filter(|_| moves.frees(&node.step)) {
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

struct Moves {
    /// Times each value is used.
    uses: Vec<usize>,
    /// Whether a value has bytes of its own in the arena.
    owns: Vec<bool>,
}

impl Moves {
    fn new(program: &Program) -> Self {
        let mut moves =
            Self { uses: vec![0; program.values.len()], owns: vec![false; program.values.len()] };
        let fetched = program.fetches.iter().map(|slot| slot.value);
        let used = program.steps.iter().flat_map(|node| node.step.inputs());
        used.chain(fetched).for_each(|value| moves.uses[value.index()] += 1);
        for node in &program.steps {
            let named = matches!(
                node.step,
                Step::Read { .. } | Step::Reshape { .. } | Step::Barrier { .. }
            );
            node.step.outs().iter().for_each(|out| moves.owns[out.index()] = !named);
        }
        moves
    }

    /// Whether a step makes less of what nobody else uses, on whatever mesh.
    fn frees(&self, step: &Step) -> bool {
        let input = match step {
            Step::Reduce { input, .. } => input.value,
            Step::ReduceScatter { input, .. } => *input,
            _ => return false,
        };
        self.owns[input.index()] && self.uses[input.index()] == 1
    }
}
