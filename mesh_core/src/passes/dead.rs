//! Removes steps of which no write and no fetch needs a result.
//!
//! An all-reduce of several values keeps those that are needed, a sort its keys and what is needed of
//! what goes with them; a map of which any out is needed keeps all. Feeds stay: they are part of the function's signature.

use super::compact;
use crate::names::Mesh;
use crate::program::{Program, Step, ValueId};

pub(super) fn run(program: &mut Program, _mesh: &Mesh) {
    let mut needed = vec![false; program.values.len()];
    program.fetches.iter().for_each(|slot| needed[slot.value.index()] = true);
    for node in program.steps.iter_mut().rev() {
        if let Step::AllReduce { inputs, outs, .. } = &mut node.step {
            let mut kept =
                outs.iter().map(|out| needed[out.index()]).collect::<Vec<_>>().into_iter();
            inputs.retain(|_| kept.next().unwrap_or_default());
            outs.retain(|out| needed[out.index()]);
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
