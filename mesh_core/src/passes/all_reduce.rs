//! How all-reduces are made. Each way has an order of summation of its own, so results are equal to
//! rounding, and equal bit for bit where sums are exact; each is deterministic.
//!
//! Along the group index from the first member to the last, [`Direct`](AllReduce::Direct) and
//! [`ReduceToOne`](AllReduce::ReduceToOne); share by share around a ring,
//! [`Ring`](AllReduce::Ring); along one axis after the other, the last listed first,
//! [`Hierarchical`](AllReduce::Hierarchical).

use super::{Pass, compact};
use crate::names::{AxisList, Mesh};
use crate::program::{FoldOrder, Node, Program, Step, Value, ValueId};
use std::fmt;
use std::str::FromStr;

/// How sums (maxima, …) over a group of processors are made, each member getting the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AllReduce {
    /// Every member folds a share of the elements, reading them from all others.
    #[default]
    Direct,
    /// Shares go around from neighbour to neighbour.
    Ring,
    /// Within the innermost axis first, then across: two smaller groups instead of a large one.
    Hierarchical,
    /// The first member folds everything and sends the result to all.
    ReduceToOne,
}

const NAMES: [(AllReduce, &str); 4] = [
    (AllReduce::Direct, "direct"),
    (AllReduce::Ring, "ring"),
    (AllReduce::Hierarchical, "hierarchical"),
    (AllReduce::ReduceToOne, "reduce_to_one"),
];

impl fmt::Display for AllReduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for AllReduce {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind);
        known.ok_or_else(|| {
            let names = NAMES.map(|(_, name)| name).join(", ");
            format!("`{text}` is no way to reduce among all; legal are {names}")
        })
    }
}

impl AllReduce {
    /// What makes a program's all-reduces so; `None` if they are.
    pub(super) fn pass(self) -> Option<Pass> {
        let run = match self {
            Self::Direct => return None,
            Self::Ring => ring,
            Self::Hierarchical => hierarchical,
            Self::ReduceToOne => reduce_to_one,
        };
        Some(Pass {
            name: "all-reduces",
            reason: "merging must have found equal sums while each was one step",
            run,
        })
    }
}

fn ring(program: &mut Program, _: &Mesh) {
    for node in &mut program.steps {
        if let Step::AllReduce { order, .. } = &mut node.step {
            *order = FoldOrder::Ring;
        }
    }
}

fn hierarchical(program: &mut Program, _: &Mesh) {
    each(program, |program, node| {
        let Step::AllReduce { kind, order, axes, inputs, outs } = &node.step else { return vec![] };
        let mut made = Vec::new();
        let mut now = inputs.clone();
        for (left, &axis) in axes.iter().enumerate().rev() {
            let next = match left {
                0 => outs.clone(),
                _ => now.iter().map(|&value| another(program, value)).collect(),
            };
            let (inputs, axes) = (now, AxisList::from_slice(&[axis]));
            let (kind, order, outs) = (*kind, *order, next.clone());
            made.push(Step::AllReduce { kind, order, axes, inputs, outs });
            now = next;
        }
        made
    });
}

fn reduce_to_one(program: &mut Program, _: &Mesh) {
    each(program, |program, node| {
        let Step::AllReduce { kind, axes, inputs, outs, .. } = &node.step else { return vec![] };
        let pair = |(&input, &out): (&ValueId, &ValueId)| {
            let (sum, axes, kind) = (another(program, input), axes.clone(), *kind);
            let reduce = Step::ReduceTo { kind, axes: axes.clone(), root: 0, input, out: sum };
            [reduce, Step::Broadcast { axes, root: 0, input: sum, out }]
        };
        inputs.iter().zip(outs).flat_map(pair).collect()
    });
}

/// Replaces each step for which steps are made.
fn each(program: &mut Program, mut make: impl FnMut(&mut Program, &Node) -> Vec<Step>) {
    for node in std::mem::take(&mut program.steps) {
        let made = make(program, &node);
        if made.is_empty() {
            program.steps.push(node);
            continue;
        }
        let Node { origin, owners, .. } = node;
        let node = |step| Node { step, origin, owners: owners.clone() };
        program.steps.extend(made.into_iter().map(node));
    }
    compact(program);
}

/// A new value of the type of another.
fn another(program: &mut Program, value: ValueId) -> ValueId {
    let Value { dtype, extents, .. } = program.value(value).clone();
    program.values.push(Value::new(dtype, extents));
    ValueId(program.values.len() as u32 - 1)
}
