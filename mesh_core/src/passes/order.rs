//! In which order the dims of a value lie in memory.
//!
//! A product that is repeated for each head of each sequence wants these dims outermost in its
//! factors and its result: then each repetition is a product of dense matrices, and what lies between
//! such products can be done tile by tile (see [`tile`](super::tile)). So the first product that meets
//! a value says how it lies. Elementwise steps pass the wish on to what they read, and what they make
//! lies as what they read does.
//!
//! Only values that nothing but products, maps, reductions and copies meet have a choice: these read
//! and write in any order. All else is in declared order.

use super::uses::Uses;
use crate::program::{Block, Dims, Form, Operand, Step, ValueId};

pub(super) fn run(block: &mut Block) {
    let free = free(block);
    let mut wishes: Vec<Option<Dims>> = vec![None; block.values.len()];
    let wish = |wishes: &mut Vec<Option<Dims>>, value: ValueId, order: Dims| {
        let wished = &mut wishes[value.index()];
        if free[value.index()] && wished.is_none() {
            *wished = Some(order);
        }
    };
    for step in &block.steps {
        let (Form::Contract(_), [lhs, rhs], &[out]) =
            (&step.form, &step.inputs[..], &step.outs[..])
        else {
            continue;
        };
        let labels: Dims = (0..block.value(out).extents.len() as u8).collect();
        let is_met_by_both = |label: &u8| lhs.dims.contains(label) && rhs.dims.contains(label);
        let repeated: Dims = labels.iter().copied().filter(is_met_by_both).collect();
        if repeated.is_empty() {
            continue;
        }
        for (value, dims) in [(lhs.value, &lhs.dims), (rhs.value, &rhs.dims), (out, &labels)] {
            wish(&mut wishes, value, outermost(dims, &repeated));
        }
    }
    for step in block.steps.iter().rev() {
        let (Form::Map(_) | Form::Move(_)) = &step.form else { continue };
        let Some(labels) = step.outs.iter().find_map(|out| wishes[out.index()].clone()) else {
            continue;
        };
        let inputs = step.inputs.iter();
        let inputs = inputs.map(|input| (input.value, outermost(&input.dims, &labels)));
        let outs = step.outs.iter().map(|&out| (out, labels.clone()));
        inputs.chain(outs).for_each(|(value, order)| wish(&mut wishes, value, order));
    }
    for position in 0..block.steps.len() {
        let step = &block.steps[position];
        let wished = step.outs.iter().find_map(|out| wishes[out.index()].clone());
        if let Some(order) = wished.or_else(|| followed(block, step)) {
            for out in step.outs.iter().filter(|out| free[out.index()]) {
                block.values[out.index()].order = order.clone();
            }
        }
    }
}

/// Per value, whether it may lie in any order.
fn free(block: &Block) -> Vec<bool> {
    let uses = Uses::new(block);
    let is_any = |position: &usize| {
        let form = &block.steps[*position].form;
        matches!(form, Form::Map(_) | Form::Reduce(_) | Form::Contract(_) | Form::Move(_))
    };
    let is_free = |value: usize| {
        let made = uses.maker[value].is_some_and(|maker| {
            is_any(&maker) || matches!(block.steps[maker].form, Form::Generate(_))
        });
        made && !uses.fetched[value] && uses.users[value].iter().all(is_any)
    };
    let mut free: Vec<bool> = (0..block.values.len()).map(is_free).collect();
    // The outs of a step lie alike.
    for step in &block.steps {
        let all = step.outs.iter().all(|out| free[out.index()]);
        step.outs.iter().for_each(|out| free[out.index()] = all);
    }
    free
}

/// The order of a value with dims of these labels that has some of them outermost.
fn outermost(dims: &[u8], first: &[u8]) -> Dims {
    let mut order: Dims = (0..dims.len() as u8).collect();
    let rank = |dim: &u8| first.iter().position(|label| *label == dims[usize::from(*dim)]);
    order.sort_by_key(|dim| rank(dim).unwrap_or(first.len()));
    order
}

/// The order in which the outs of a step lie as what it reads does, where that is not as declared.
fn followed(block: &Block, step: &Step) -> Option<Dims> {
    let out = step.outs.first().copied()?;
    let rank = block.value(out).extents.len();
    let labels = |operand: &Operand| -> Dims {
        let value = block.value(operand.value);
        let labels = value.order.iter().map(|&dim| operand.dims[usize::from(dim)]);
        labels.filter(|&label| usize::from(label) < rank).collect()
    };
    let mut turned = step.inputs.iter().filter(|input| !block.value(input.value).in_order());
    match step.form {
        Form::Map(_) => turned.map(labels).find(|labels| labels.len() == rank),
        Form::Reduce(_) => turned.next().map(labels),
        _ => None,
    }
}
