//! Reads through maps whose results are not worth keeping.
//!
//! * *Views* only turn dims around or repeat elements.
//! * *Numbers* are one everywhere.
//! * *Expansions* compute little on inputs much smaller than what they make: masks, one-hot vectors.
//! * *Far* values are large, made of one value as large as they are by little arithmetic, and read
//!   long after, when both have to come from memory: then one of the two need not be written.
//!
//! A map that reads one of these computes it anew.

use super::body::Weave;
use crate::program::{Dims, Generator, Instr, Operand, Program, Reg, Scalar, Step, Value, ValueId};
use std::ops::Range;

/// An expansion's inputs are together so much smaller than what it makes.
const SMALLER: usize = 8;
/// The most operations an expansion takes for an element.
const FEW: usize = 8;
/// The most operations a far value takes for an element: an exponential and something around it.
const SOME: usize = 16;
/// Bytes of a far value.
const LARGE: usize = 4 << 20;
/// Steps between a far value and who reads it.
const LONG: usize = 64;

pub(super) fn run(program: &mut Program) {
    let mut known: Vec<Option<Seen>> = vec![None; program.values.len()];
    let values = &program.values;
    for (position, node) in program.steps.iter_mut().enumerate() {
        see_through(values, &mut node.step, position, &known);
        if let Some((value, seen)) = seen(values, &node.step, position) {
            known[value.index()] = Some(seen);
        }
    }
    super::super::dead::steps(program);
}

/// What a value is by another name.
#[derive(Clone)]
enum Seen {
    /// An operand whose labels are the value's dims.
    View(Operand),
    Number(Scalar),
    /// A map to be done by who reads the value at these positions.
    Anew {
        step: Box<Step>,
        readers: Range<usize>,
    },
}

fn seen(values: &[Value], step: &Step, position: usize) -> Option<(ValueId, Seen)> {
    if let Step::Generate { generator: Generator::Fill(scalar), out, .. } = step {
        return Some((*out, Seen::Number(*scalar)));
    }
    let Step::Map { body, inputs, outs } = step else { return None };
    let [out] = outs[..] else { return None };
    if let ([(Instr::Input(0), _)], [Reg(0)], [input]) =
        (&body.code[..], &body.results[..], &inputs[..])
    {
        return Some((out, Seen::View(input.clone())));
    }
    let made = &values[out.index()];
    let bytes = |input: &Operand| values[input.value.index()].bytes();
    let (large, small): (Vec<_>, Vec<_>) =
        inputs.iter().partition(|input| values[input.value.index()].len() == made.len());
    let rest: usize = small.into_iter().map(bytes).sum();
    let little = rest * SMALLER <= made.bytes();
    let readers = match large.len() {
        0 if little && body.flops() <= FEW => position..usize::MAX,
        1 if little && body.flops() <= SOME && made.bytes() >= LARGE => position + LONG..usize::MAX,
        _ => return None,
    };
    Some((out, Seen::Anew { step: Box::new(step.clone()), readers }))
}

/// Replaces operands. One that repeats elements tells no extent, so only a map, whose outs have all
/// labels, can do without it.
fn see_through(values: &[Value], step: &mut Step, position: usize, known: &[Option<Seen>]) {
    let view = |operand: &mut Operand, repeats: bool| {
        let Some(Seen::View(view)) = &known[operand.value.index()] else { return };
        if repeats || view.dims.len() == operand.dims.len() {
            *operand = turned(view, operand);
        }
    };
    match step {
        Step::Map { inputs, .. } => inputs.iter_mut().for_each(|input| view(input, true)),
        Step::Reduce { input, .. } => view(input, false),
        Step::Contract { lhs, rhs, .. } => {
            view(lhs, false);
            view(rhs, false);
        }
        _ => {}
    }
    let Step::Map { body, inputs, .. } = step else { return };
    let is_read = |input: &Operand| match &known[input.value.index()] {
        Some(Seen::Anew { readers, .. }) => readers.contains(&position),
        Some(Seen::Number(_)) => true,
        _ => false,
    };
    if !inputs.iter().any(is_read) {
        return;
    }
    let mut weave = Weave::default();
    let regs: Vec<Reg> = std::mem::take(inputs)
        .into_iter()
        .map(|input| match known[input.value.index()].as_ref().filter(|_| is_read(&input)) {
            Some(Seen::Number(scalar)) => weave.constant(*scalar),
            Some(Seen::Anew { step, .. }) => match &**step {
                Step::Map { body, inputs, .. } => {
                    let inner = inputs.iter().map(|inner| turned(inner, &input));
                    let regs: Vec<_> = inner.map(|inner| weave.input(values, inner)).collect();
                    let made = weave.append(body, &regs);
                    weave.stored(made[0])
                }
                _ => weave.input(values, input),
            },
            _ => weave.input(values, input),
        })
        .collect();
    let results = weave.append(body, &regs);
    (*body, *inputs) = weave.finish(&results);
}

/// An operand of what makes a value, in the labels of who reads the value.
fn turned(inner: &Operand, outer: &Operand) -> Operand {
    let dims: Dims = inner.dims.iter().map(|&dim| outer.dims[usize::from(dim)]).collect();
    Operand { value: inner.value, dims }
}
