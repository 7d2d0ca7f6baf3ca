//! Small all-reduces of one kind over the same axes become one of several values: what they cost is
//! to meet, not to move bytes.
//!
//! A later one joins the first if it does not depend on it. The joint step stands where the last of
//! them stood; steps between that need a result wait until behind it, in their order, and everything
//! else keeps its place. So no cycle can come about, and what is computed is the same to the bit.
//! (Around a [ring](super::AllReduce::Ring) the order of a sum depends on where its value lies among
//! those of its step, so there combined sums may round differently; each is deterministic.)
//!
//! What a waiting step reads lives longer. [`KEPT`] bounds how much is kept so, [`SPAN`] how far the
//! last may stand from the first.

use super::{Machine, compact};
use crate::program::{Block, Form, Step, Value};
use std::collections::VecDeque;

/// Most bytes of combined all-reduces, in those that one costs to meet for.
const TOGETHER: usize = 4;

/// Most bytes that are read by waiting steps.
const KEPT: usize = 4 << 20;

/// Most steps from the first to the last.
const SPAN: usize = 1024;

pub(super) fn run(block: &mut Block, machine: &Machine) {
    let mut changed = false;
    // Steps that have moved may let others meet.
    while once(block, machine.caches.meeting_bytes) {
        changed = true;
    }
    if changed {
        compact(block);
    }
}

fn once(block: &mut Block, small: usize) -> bool {
    let mut todo: VecDeque<Step> = std::mem::take(&mut block.steps).into();
    let mut search = Search::new(&block.values, &todo, small);
    let (mut done, mut changed) = (Vec::with_capacity(todo.len()), false);
    while let Some(step) = todo.pop_front() {
        match search.partners(&step, &todo) {
            None => done.push(step),
            Some(roles) => {
                changed = true;
                regroup(step, &roles, &mut todo);
            }
        }
    }
    block.steps = done;
    changed
}

/// What becomes of a step behind the first of those that are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Stays,
    Joins,
    /// It needs a result, and moves behind the combined step.
    Moves,
}

struct Search<'p> {
    values: &'p [Value],
    /// Most bytes of an all-reduce that is combined with others.
    most: usize,
    /// Whether a value lies in a variable, as a rule, and takes no memory.
    read: Vec<bool>,
    /// The search in which a value was last found to be late.
    late: Vec<u32>,
    /// The search in which a value was last counted as kept.
    kept: Vec<u32>,
    search: u32,
}

impl<'p> Search<'p> {
    fn new(values: &'p [Value], steps: &VecDeque<Step>, most: usize) -> Self {
        let mut read = vec![false; values.len()];
        for step in steps.iter().filter(|step| matches!(step.form, Form::Read(_))) {
            read[step.outs[0].index()] = true;
        }
        let never = vec![0; values.len()];
        Self { values, most, read, late: never.clone(), kept: never, search: 0 }
    }

    /// The bytes of an all-reduce that may be combined.
    fn small(&self, step: &Step) -> Option<usize> {
        let Form::AllReduce(_) = step.form else { return None };
        let bytes = step.reads().map(|input| self.values[input.index()].bytes()).sum();
        (bytes <= self.most).then_some(bytes)
    }

    /// Roles of the steps that follow `first`, up to the last that joins it; `None` if none does.
    fn partners(&mut self, first: &Step, following: &VecDeque<Step>) -> Option<Vec<Role>> {
        let mut total = self.small(first)?;
        self.search += 1;
        let (mut roles, mut last, mut kept) = (Vec::new(), 0, 0);
        self.delay(first);
        for step in following.iter().take(SPAN) {
            let role = if step.reads().any(|input| self.late[input.index()] == self.search) {
                kept += step.reads().map(|input| self.keep(input.index())).sum::<usize>();
                Role::Moves
            } else {
                let alike = self.small(step).filter(|_| self.alike(first, step));
                match alike.filter(|bytes| total + bytes <= TOGETHER * self.most) {
                    None => Role::Stays,
                    Some(bytes) => {
                        total += bytes;
                        last = roles.len() + 1;
                        Role::Joins
                    }
                }
            };
            if kept > KEPT {
                break;
            }
            if role != Role::Stays {
                self.delay(step);
            }
            roles.push(role);
        }
        roles.truncate(last);
        (last > 0).then_some(roles)
    }

    fn delay(&mut self, step: &Step) {
        step.outs.iter().for_each(|out| self.late[out.index()] = self.search);
    }

    /// The bytes of a value that is there and has to stay, the first time.
    fn keep(&mut self, value: usize) -> usize {
        let counted = std::mem::replace(&mut self.kept[value], self.search) == self.search;
        let free = counted || self.read[value] || self.late[value] == self.search;
        if free { 0 } else { self.values[value].bytes() }
    }

    /// Whether two all-reduces differ in their values alone.
    fn alike(&self, one: &Step, other: &Step) -> bool {
        let dtype = |step: &Step| step.reads().next().map(|v| self.values[v.index()].dtype);
        one.owners == other.owners && one.form == other.form && dtype(one) == dtype(other)
    }
}

/// Puts the joint step and those that it passes back in front.
fn regroup(mut joint: Step, roles: &[Role], todo: &mut VecDeque<Step>) {
    let (mut stay, mut wait) = (Vec::new(), Vec::new());
    for (role, step) in roles.iter().zip(todo.drain(..roles.len())) {
        match role {
            Role::Stays => stay.push(step),
            Role::Moves => wait.push(step),
            Role::Joins => {
                joint.inputs.extend(step.inputs);
                joint.outs.extend(step.outs);
            }
        }
    }
    let front = stay.into_iter().chain([joint]).chain(wait);
    front.rev().for_each(|step| todo.push_front(step));
}
