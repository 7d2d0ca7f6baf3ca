//! How all-reduces are made. Each way has an order of summation of its own, so results are equal to
//! rounding, and equal bit for bit where sums are exact; each is deterministic.
//!
//! Along the group index from the first member to the last, [`Direct`](AllReduce::Direct) and
//! [`ReduceToOne`](AllReduce::ReduceToOne); share by share around a ring,
//! [`Ring`](AllReduce::Ring); along one axis after the other, the last listed first,
//! [`Hierarchical`](AllReduce::Hierarchical).

use super::compact;
use crate::names::AxisList;
use crate::program::forms::{self, Broadcast, ReduceTo};
use crate::program::{Block, FoldOrder, Form, Operand, Step, Value, ValueId};
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

/// Makes the all-reduces of a block as wanted.
pub(super) fn run(block: &mut Block, way: AllReduce) {
    match way {
        AllReduce::Direct => {}
        AllReduce::Ring => ring(block),
        AllReduce::Hierarchical => each(block, hierarchical),
        AllReduce::ReduceToOne => each(block, reduce_to_one),
    }
}

fn ring(block: &mut Block) {
    for step in &mut block.steps {
        if let Form::AllReduce(form) = &mut step.form {
            form.order = FoldOrder::Ring;
        }
    }
}

fn hierarchical(block: &mut Block, step: &Step, form: &forms::AllReduce) -> Vec<Step> {
    let mut made = Vec::new();
    let mut now = step.inputs.clone();
    for (left, &axis) in form.axes.iter().enumerate().rev() {
        let next = match left {
            0 => step.outs.clone(),
            _ => now.iter().map(|input| another(block, input.value)).collect(),
        };
        let form = forms::AllReduce { axes: AxisList::from_slice(&[axis]), ..form.clone() };
        let whole = |&id: &ValueId| Operand::whole(id, block.value(id).extents.len());
        let inputs = std::mem::replace(&mut now, next.iter().map(whole).collect());
        made.push(step.instead(form, inputs, &next));
    }
    made
}

fn reduce_to_one(block: &mut Block, step: &Step, form: &forms::AllReduce) -> Vec<Step> {
    let (kind, root) = (form.kind, 0);
    let pair = |(input, &out): (&Operand, &ValueId)| {
        let sum = another(block, input.value);
        let reduce = ReduceTo { kind, axes: form.axes.clone(), root };
        let send = Broadcast { axes: form.axes.clone(), root };
        let whole = Operand { value: sum, ..input.clone() };
        [step.instead(reduce, [input.clone()], &[sum]), step.instead(send, [whole], &[out])]
    };
    step.inputs.iter().zip(&step.outs).flat_map(pair).collect()
}

/// Replaces each all-reduce.
fn each(
    block: &mut Block,
    mut make: impl FnMut(&mut Block, &Step, &forms::AllReduce) -> Vec<Step>,
) {
    for step in std::mem::take(&mut block.steps) {
        match &step.form {
            Form::AllReduce(form) => {
                let made = make(block, &step, form);
                block.steps.extend(made);
            }
            _ => block.steps.push(step),
        }
    }
    compact(block);
}

/// A new value of the type of another.
fn another(block: &mut Block, value: ValueId) -> ValueId {
    let Value { dtype, extents, .. } = block.value(value).clone();
    block.define(Value::new(dtype, extents))
}
