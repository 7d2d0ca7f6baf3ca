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
use crate::names::Mesh;
use crate::program::{Dims, Operand, Program, Step, ValueId};

pub(super) fn run(program: &mut Program, _: &Mesh) {
    let free = free(program);
    let mut wishes: Vec<Option<Dims>> = vec![None; program.values.len()];
    let wish = |wishes: &mut Vec<Option<Dims>>, value: ValueId, order: Dims| {
        let wished = &mut wishes[value.index()];
        if free[value.index()] && wished.is_none() {
            *wished = Some(order);
        }
    };
    for node in &program.steps {
        let Step::Contract { lhs, rhs, out } = &node.step else { continue };
        let labels: Dims = (0..program.value(*out).extents.len() as u8).collect();
        let is_met_by_both = |label: &u8| lhs.dims.contains(label) && rhs.dims.contains(label);
        let repeated: Dims = labels.iter().copied().filter(is_met_by_both).collect();
        if repeated.is_empty() {
            continue;
        }
        for (value, dims) in [(lhs.value, &lhs.dims), (rhs.value, &rhs.dims), (*out, &labels)] {
            wish(&mut wishes, value, outermost(dims, &repeated));
        }
    }
    for node in program.steps.iter().rev() {
        let (Step::Map { .. } | Step::Move { .. }) = &node.step else { continue };
        let outs = node.step.outs();
        let Some(labels) = outs.iter().find_map(|out| wishes[out.index()].clone()) else {
            continue;
        };
        let inputs =
            operands(&node.step).map(|input| (input.value, outermost(&input.dims, &labels)));
        let outs = outs.iter().map(|&out| (out, labels.clone()));
        inputs.chain(outs).for_each(|(value, order)| wish(&mut wishes, value, order));
    }
    for position in 0..program.steps.len() {
        let step = &program.steps[position].step;
        let outs = step.outs();
        let wished = outs.iter().find_map(|out| wishes[out.index()].clone());
        if let Some(order) = wished.or_else(|| followed(program, step)) {
            for out in outs.iter().filter(|out| free[out.index()]) {
                program.values[out.index()].order = order.clone();
            }
        }
    }
}

/// Per value, whether it may lie in any order.
fn free(program: &Program) -> Vec<bool> {
    let uses = Uses::new(program);
    let is_any = |position: &usize| {
        let step = &program.steps[*position].step;
        matches!(
            step,
            Step::Map { .. } | Step::Reduce { .. } | Step::Contract { .. } | Step::Move { .. }
        )
    };
    let mut free: Vec<bool> = (0..program.values.len())
        .map(|value| {
            let made = uses.maker[value].is_some_and(|maker| {
                is_any(&maker) || matches!(program.steps[maker].step, Step::Generate { .. })
            });
            made && !uses.fetched[value] && uses.users[value].iter().all(is_any)
        })
        .collect();
    // The outs of a step lie alike.
    for node in &program.steps {
        let outs = node.step.outs();
        let all = outs.iter().all(|out| free[out.index()]);
        outs.iter().for_each(|out| free[out.index()] = all);
    }
    free
}

/// The operands of an elementwise step.
fn operands(step: &Step) -> impl Iterator<Item = &Operand> {
    let (inputs, pieces) = match step {
        Step::Map { inputs, .. } => (&inputs[..], &[][..]),
        Step::Move { pieces, .. } => (&[][..], &pieces[..]),
        _ => (&[][..], &[][..]),
    };
    inputs.iter().chain(pieces.iter().map(|piece| &piece.input))
}

/// The order of a value with dims of these labels that has some of them outermost.
fn outermost(dims: &[u8], first: &[u8]) -> Dims {
    let mut order: Dims = (0..dims.len() as u8).collect();
    let rank = |dim: &u8| first.iter().position(|label| *label == dims[usize::from(*dim)]);
    order.sort_by_key(|dim| rank(dim).unwrap_or(first.len()));
    order
}

/// The order in which the outs of a step lie as what it reads does, where that is not as declared.
fn followed(program: &Program, step: &Step) -> Option<Dims> {
    let out = step.outs().first().copied()?;
    let rank = program.value(out).extents.len();
    let labels = |operand: &Operand| -> Dims {
        let value = program.value(operand.value);
        let labels = value.order.iter().map(|&dim| operand.dims[usize::from(dim)]);
        labels.filter(|&label| usize::from(label) < rank).collect()
    };
    let turned = |operand: &&Operand| !program.value(operand.value).in_order();
    match step {
        Step::Map { inputs, .. } => {
            inputs.iter().filter(turned).map(labels).find(|labels| labels.len() == rank)
        }
        Step::Reduce { input, .. } => Some(input).filter(turned).map(labels),
        _ => None,
    }
}
