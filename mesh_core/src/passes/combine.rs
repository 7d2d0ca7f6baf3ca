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
//!
//! Bounds on sizes are from measurements among threads: all-reduces of 2 on 2 cores, and of 4 on 2
//! cores, take 0.8 and 3 µs at 1 KiB, 3 and 7 µs at 16 KiB, 5 and 13 µs at 64 KiB; half of the time is
//! bytes from about 8 to 16 KiB on.

use super::compact;
use crate::names::Mesh;
use crate::program::{Node, Program, Step, Value};
use std::collections::VecDeque;

/// Most bytes of an all-reduce that is combined with others.
const SMALL: usize = 16 << 10;

/// Most bytes of them together.
const TOTAL: usize = 64 << 10;

/// Most bytes that are read by waiting steps.
const KEPT: usize = 4 << 20;

/// Most steps from the first to the last.
const SPAN: usize = 1024;

pub(super) fn run(program: &mut Program, _: &Mesh) {
    let mut changed = false;
    // Steps that have moved may let others meet.
    while once(program) {
        changed = true;
    }
    if changed {
        compact(program);
    }
}

fn once(program: &mut Program) -> bool {
    let mut todo: VecDeque<Node> = std::mem::take(&mut program.steps).into();
    let mut search = Search::new(&program.values, &todo);
    let (mut done, mut changed) = (Vec::with_capacity(todo.len()), false);
    while let Some(node) = todo.pop_front() {
        match search.partners(&node, &todo) {
            None => done.push(node),
            Some(roles) => {
                changed = true;
                regroup(node, &roles, &mut todo);
            }
        }
    }
    program.steps = done;
    changed
}

/// What becomes of a step behind the first of those that are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Stays,
    Joins,
    /// It needs a result.
    Waits,
}

struct Search<'p> {
    values: &'p [Value],
    /// Whether a value lies in a variable, as a rule, and takes no memory.
    read: Vec<bool>,
    /// The search in which a value was last found to be late.
    late: Vec<u32>,
    /// The search in which a value was last counted as kept.
    kept: Vec<u32>,
    search: u32,
}

impl<'p> Search<'p> {
    fn new(values: &'p [Value], steps: &VecDeque<Node>) -> Self {
        let mut read = vec![false; values.len()];
        for node in steps {
            if let Step::Read { out, .. } = &node.step {
                read[out.index()] = true;
            }
        }
        let never = vec![0; values.len()];
        Self { values, read, late: never.clone(), kept: never, search: 0 }
    }

    /// The bytes of an all-reduce that may be combined.
    fn small(&self, node: &Node) -> Option<usize> {
        let Step::AllReduce { inputs, .. } = &node.step else { return None };
        let bytes = inputs.iter().map(|input| self.values[input.index()].bytes()).sum();
        (bytes <= SMALL).then_some(bytes)
    }

    /// Roles of the steps that follow `first`, up to the last that joins it; `None` if none does.
    fn partners(&mut self, first: &Node, following: &VecDeque<Node>) -> Option<Vec<Role>> {
        let mut total = self.small(first)?;
        self.search += 1;
        let (mut roles, mut last, mut kept) = (Vec::new(), 0, 0);
        self.delay(first);
        for node in following.iter().take(SPAN) {
            let inputs = node.step.inputs();
            let role = if inputs.iter().any(|input| self.late[input.index()] == self.search) {
                kept += inputs.iter().map(|input| self.keep(input.index())).sum::<usize>();
                Role::Waits
            } else {
                let alike = self.small(node).filter(|_| self.alike(first, node));
                match alike.filter(|bytes| total + bytes <= TOTAL) {
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
                self.delay(node);
            }
            roles.push(role);
        }
        roles.truncate(last);
        (last > 0).then_some(roles)
    }

    fn delay(&mut self, node: &Node) {
        node.step.outs().iter().for_each(|out| self.late[out.index()] = self.search);
    }

    /// The bytes of a value that is there and has to stay, the first time.
    fn keep(&mut self, value: usize) -> usize {
        let counted = std::mem::replace(&mut self.kept[value], self.search) == self.search;
        let free = counted || self.read[value] || self.late[value] == self.search;
        if free { 0 } else { self.values[value].bytes() }
    }

    /// Whether two all-reduces differ in their values alone.
    fn alike(&self, one: &Node, other: &Node) -> bool {
        let dtype = |step: &Step| step.inputs().first().map(|v| self.values[v.index()].dtype);
        let way = |step: &Step| match step {
            Step::AllReduce { kind, order, axes, .. } => Some((*kind, *order, axes.clone())),
            _ => None,
        };
        one.owners == other.owners
            && way(&one.step) == way(&other.step)
            && dtype(&one.step) == dtype(&other.step)
    }
}

/// Puts the joint step and those that it passes back in front.
fn regroup(mut joint: Node, roles: &[Role], todo: &mut VecDeque<Node>) {
    let (mut stay, mut wait) = (Vec::new(), Vec::new());
    for (role, node) in roles.iter().zip(todo.drain(..roles.len())) {
        match role {
            Role::Stays => stay.push(node),
            Role::Waits => wait.push(node),
            Role::Joins => {
                if let Step::AllReduce { inputs, outs, .. } = &mut joint.step {
                    inputs.extend(node.step.inputs());
                    outs.extend_from_slice(node.step.outs());
                }
            }
        }
    }
    let front = stay.into_iter().chain([joint]).chain(wait);
    front.rev().for_each(|node| todo.push_front(node));
}
