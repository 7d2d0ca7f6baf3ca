//! A product that sums nothing is a map, and one without rows and columns is a map and a sum.
//!
//! In `out[i, j] = lhs[i] * rhs[j]` and `out[i] = sum of lhs[i, k] * rhs[i, k]` every product is used
//! once: they are bound by memory, not by arithmetic, and as maps they can be fused with what makes
//! their factors. Sums in bf16 stay as they are, since their terms are not rounded, and so do small ones:
//! nothing is tiled for them, and their terms would take memory.

use super::{Machine, compact};
use crate::names::ReduceKind;
use crate::program::forms::{Map, Reduce};
use crate::program::{Block, Body, Dims, Expr, Form, Operand, Step, Value};
use smallvec::{SmallVec, smallvec};

pub(super) fn run(block: &mut Block, machine: &Machine) {
    let mut steps = Vec::with_capacity(block.steps.len());
    for step in std::mem::take(&mut block.steps) {
        match elementwise(block, &step, machine) {
            Some(instead) => steps.extend(instead),
            None => steps.push(step),
        }
    }
    block.steps = steps;
    compact(block);
}

fn elementwise(block: &mut Block, step: &Step, machine: &Machine) -> Option<SmallVec<[Step; 2]>> {
    let (Form::Contract(_), [lhs, rhs]) = (&step.form, &step.inputs[..]) else { return None };
    let Value { dtype, extents, .. } = block.value(step.outs[0]);
    let (dtype, rank) = (*dtype, extents.len());
    let sums = |operand: &Operand| operand.dims.iter().any(|&label| usize::from(label) >= rank);
    let body = Body::new(&[dtype; 2], &[(Expr::input(0) * Expr::input(1), dtype)]).ok()?;
    if !sums(lhs) && !sums(rhs) {
        return Some(smallvec![step.instead(Map::new(body), step.inputs.clone(), &step.outs)]);
    }
    let alike =
        lhs.dims.len() == rhs.dims.len() && lhs.dims.iter().all(|label| rhs.dims.contains(label));
    // The terms are likely to be made tile by tile.
    let large = block.value(lhs.value).bytes() >= machine.caches.own_bytes / 4;
    if !alike || !large || dtype.reduction() != dtype {
        return None;
    }
    // The terms lie as the left factor does.
    let place = |label: &u8| lhs.dims.iter().position(|own| own == label).map(|i| i as u8);
    let turned: Dims = rhs.dims.iter().filter_map(place).collect();
    let terms = block.value(lhs.value).extents.clone();
    let factors =
        [Operand::whole(lhs.value, terms.len()), Operand { value: rhs.value, dims: turned }];
    let terms = block.define(Value::new(dtype, terms));
    let input = Operand { value: terms, dims: lhs.dims.clone() };
    let map = step.instead(Map::new(body), factors, &[terms]);
    let sum = step.instead(Reduce::new(ReduceKind::Sum), [input], &step.outs);
    Some(smallvec![map, sum])
}
