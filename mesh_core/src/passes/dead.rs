//! Removes steps of which no write and no fetch needs a result.
//!
//! An all-reduce of several values keeps those that are needed, a sort its keys and what is needed of
//! what goes with them, a loop stacks only what is needed and takes only what its body then reads; a
//! map or barrier of which any out is needed keeps all. Feeds of a function stay: they are part of
//! its signature. So does what a loop carries.

use super::compact;
use crate::program::forms::Loop;
use crate::program::{Block, Form, Step, ValueId};
use smallvec::SmallVec;

pub(crate) fn run(block: &mut Block) {
    let mut needed = vec![false; block.values.len()];
    block.results.iter().for_each(|result| needed[result.index()] = true);
    for step in block.steps.iter_mut().rev() {
        let kept: Vec<bool> = step.outs.iter().map(|out| needed[out.index()]).collect();
        match &mut step.form {
            Form::AllReduce(_) => {
                keep(&mut step.inputs, &kept);
                keep(&mut step.outs, &kept);
            }
            Form::Sort(_) => {
                let kept: Vec<bool> = kept.iter().enumerate().map(|(i, k)| i == 0 || *k).collect();
                keep(&mut step.inputs, &kept);
                keep(&mut step.outs, &kept);
            }
            Form::Loop(form) => {
                let kept: Vec<bool> =
                    kept.iter().enumerate().map(|(i, k)| i < form.carried || *k).collect();
                keep(&mut step.outs, &kept);
                let read = prune(form, &kept);
                keep(&mut step.inputs, &read);
            }
            _ => {}
        }
        if is_needed(step, &needed) {
            step.reads().for_each(|input| needed[input.index()] = true);
        }
    }
    block.steps.retain(|step| is_needed(step, &needed));
    compact(block);
}

fn is_needed(step: &Step, needed: &[bool]) -> bool {
    step.form.has_effect() || step.outs.iter().any(|out| needed[out.index()])
}

/// Keeps some of the items; those beyond the list stay.
fn keep<A: smallvec::Array>(items: &mut SmallVec<A>, kept: &[bool]) {
    let mut kept = kept.iter();
    items.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Drops what a loop stacks for nobody, and then what its body does not read; gives which of the inputs
/// it does.
fn prune(form: &mut Loop, kept: &[bool]) -> Vec<bool> {
    let (carried, slices, body) = (form.carried, form.slices(), &mut *form.body);
    let mut kept = kept.iter();
    body.results.retain(|_| kept.next().copied().unwrap_or(true));
    run(body);
    let mut read = vec![false; body.values.len()];
    let inputs = body.steps.iter().flat_map(Step::reads);
    body.results.iter().copied().chain(inputs).for_each(|value| read[value.index()] = true);
    let last = body.params.len() - 1;
    let keeps = |(i, param): (usize, &ValueId)| i < carried || i == last || read[param.index()];
    let keeps: Vec<bool> = body.params.iter().enumerate().map(keeps).collect();
    let mut kept = keeps.iter();
    body.params.retain(|_| kept.next().copied().unwrap_or(true));
    form.sliced = keeps[slices].iter().filter(|kept| **kept).count();
    compact(body);
    keeps[..last].to_vec()
}
