//! A product that sums nothing is a map, and one without rows and columns is a map and a sum.
//!
//! In `out[i, j] = lhs[i] * rhs[j]` and `out[i] = sum of lhs[i, k] * rhs[i, k]` every product is used
//! once: they are bound by memory, not by arithmetic, and as maps they can be fused with what makes
//! their factors. Sums in bf16 stay as they are, since their terms are not rounded, and so do small ones:
//! nothing is tiled for them, and their terms would take memory.

use super::compact;
use crate::names::{Mesh, ReduceKind};
use crate::program::{Body, Dims, Expr, Node, Operand, Program, Step, Value, ValueId};
use smallvec::{SmallVec, smallvec};

/// Bytes of the terms of a sum, from which on they are likely to be made tile by tile.
const LARGE: usize = 256 << 10;

pub(super) fn run(program: &mut Program, _: &Mesh) {
    let mut steps = Vec::with_capacity(program.steps.len());
    for node in std::mem::take(&mut program.steps) {
        match elementwise(program, &node) {
            Some(instead) => steps.extend(instead),
            None => steps.push(node),
        }
    }
    program.steps = steps;
    compact(program);
}

fn elementwise(program: &mut Program, node: &Node) -> Option<SmallVec<[Node; 2]>> {
    let Step::Contract { lhs, rhs, out } = &node.step else { return None };
    let Value { dtype, extents, .. } = program.value(*out).clone();
    let rank = extents.len();
    let sums = |operand: &Operand| operand.dims.iter().any(|&label| usize::from(label) >= rank);
    let with = |step| Node { step, ..node.clone() };
    let body = Body::new(&[dtype; 2], &[(Expr::input(0) * Expr::input(1), dtype)]).ok()?;
    if !sums(lhs) && !sums(rhs) {
        let inputs = vec![lhs.clone(), rhs.clone()];
        return Some(smallvec![with(Step::Map { body, inputs, outs: smallvec![*out] })]);
    }
    let alike =
        lhs.dims.len() == rhs.dims.len() && lhs.dims.iter().all(|label| rhs.dims.contains(label));
    let large = program.value(lhs.value).bytes() >= LARGE;
    if !alike || !large || dtype.reduction() != dtype {
        return None;
    }
    // The terms lie as the left factor does.
    let place = |label: &u8| lhs.dims.iter().position(|own| own == label).map(|i| i as u8);
    let turned: Dims = rhs.dims.iter().filter_map(place).collect();
    let terms = program.value(lhs.value).extents.clone();
    let whole: Dims = (0..terms.len() as u8).collect();
    program.values.push(Value::new(dtype, terms));
    let terms = ValueId(program.values.len() as u32 - 1);
    let inputs =
        vec![Operand { value: lhs.value, dims: whole }, Operand { value: rhs.value, dims: turned }];
    let input = Operand { value: terms, dims: lhs.dims.clone() };
    let sum = Step::Reduce { kind: ReduceKind::Sum, input, out: *out };
    Some(smallvec![with(Step::Map { body, inputs, outs: smallvec![terms] }), with(sum)])
}
