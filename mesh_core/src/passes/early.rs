//! Runs what frees more than it takes as soon as it can.
//!
//! A step whose outs are smaller than the inputs that nobody else uses (a gradient that is reduced
//! and scattered, a sum) moves up behind the step that makes the last of its inputs. So the large
//! values do not live until the place where the small ones are needed: gradients of sharded
//! variables never lie side by side. Everything else keeps its place.

use super::{Program, compact};
use crate::names::Mesh;
use crate::program::{Node, Step, ValueId};

pub(super) fn run(program: &mut Program, _: &Mesh) {
    let moves = Moves::new(program);
    // Steps that follow each step, by its old position; before the first step nothing is made.
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); program.steps.len()];
    let mut place: Vec<Option<usize>> = vec![None; program.values.len()];
    let mut stays = vec![true; program.steps.len()];
    for (position, node) in program.steps.iter().enumerate() {
        let made = node.step.inputs().iter().filter_map(|input| place[input.index()]).max();
        let mut at = position;
        if let Some(made) = made.filter(|_| moves.frees(program, &node.step)) {
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

    /// Whether a step takes less memory than dies with it.
    fn frees(&self, program: &Program, step: &Step) -> bool {
        if matches!(step, Step::Write { .. } | Step::Barrier { .. }) {
            return false;
        }
        let bytes =
            |ids: &[ValueId]| -> usize { ids.iter().map(|&id| program.value(id).bytes()).sum() };
        let inputs = step.inputs();
        let mut dying: Vec<ValueId> = inputs
            .iter()
            .copied()
            .filter(|input| {
                let here = inputs.iter().filter(|other| *other == input).count();
                self.owns[input.index()] && self.uses[input.index()] == here
            })
            .collect();
        dying.sort_unstable();
        dying.dedup();
        bytes(&step.outs()) < bytes(&dying)
    }
}
