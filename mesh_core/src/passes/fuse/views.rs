//! Reads through maps that compute nothing.

use super::body::Weave;
use crate::program::{Dims, Generator, Instr, Operand, Program, Reg, Scalar, Step, ValueId};

pub(super) fn run(program: &mut Program) {
    let mut known: Vec<Option<Seen>> = vec![None; program.values.len()];
    for position in 0..program.steps.len() {
        see_through(&mut program.steps[position].step, &known);
        let step = &program.steps[position].step;
        let Some(seen) = seen(step) else { continue };
        step.outs().iter().for_each(|out| known[out.index()] = Some(seen.clone()));
    }
    let numbers = |value: ValueId| match &known[value.index()] {
        Some(Seen::Number(scalar)) => Some(*scalar),
        _ => None,
    };
    let values = &program.values;
    for node in &mut program.steps {
        take_numbers(&mut node.step, &numbers, |value| values[value.index()].dtype);
    }
    super::super::dead::steps(program);
}

/// What a value is by another name.
#[derive(Clone)]
enum Seen {
    /// An operand whose labels are the value's dims.
    View(Operand),
    Number(Scalar),
}

fn seen(step: &Step) -> Option<Seen> {
    match step {
        Step::Generate { generator: Generator::Fill(scalar), .. } => Some(Seen::Number(*scalar)),
        Step::Map { body, inputs, outs } => {
            let ([(Instr::Input(0), _)], [Reg(0)], [input], [_]) =
                (&body.code[..], &body.results[..], &inputs[..], &outs[..])
            else {
                return None;
            };
            Some(Seen::View(input.clone()))
        }
        _ => None,
    }
}

/// Replaces operands that are views. One that repeats elements tells no extent, so only a map, whose
/// outs have all labels, can do without it.
fn see_through(step: &mut Step, known: &[Option<Seen>]) {
    let replace = |operand: &mut Operand, repeats: bool| {
        let Some(Seen::View(view)) = &known[operand.value.index()] else { return };
        if !repeats && view.dims.len() != operand.dims.len() {
            return;
        }
        let dims: Dims = view.dims.iter().map(|&dim| operand.dims[usize::from(dim)]).collect();
        *operand = Operand { value: view.value, dims };
    };
    match step {
        Step::Map { inputs, .. } => inputs.iter_mut().for_each(|input| replace(input, true)),
        Step::Reduce { input, .. } => replace(input, false),
        Step::Contract { lhs, rhs, .. } => {
            replace(lhs, false);
            replace(rhs, false);
        }
        _ => {}
    }
}

/// Takes inputs that are one number everywhere into the body of a map.
fn take_numbers(
    step: &mut Step,
    number: &impl Fn(ValueId) -> Option<Scalar>,
    dtype: impl Fn(ValueId) -> crate::names::DType,
) {
    let Step::Map { body, inputs, .. } = step else { return };
    if !inputs.iter().any(|input| number(input.value).is_some()) {
        return;
    }
    let mut weave = Weave::default();
    let mut kept = Vec::new();
    let regs: Vec<Reg> = std::mem::take(inputs)
        .into_iter()
        .map(|input| match number(input.value) {
            Some(scalar) => weave.constant(scalar),
            None => {
                let reg = weave.push(Instr::Input(kept.len() as u8), dtype(input.value));
                kept.push(input);
                reg
            }
        })
        .collect();
    let results = weave.append(body, &regs);
    *body = weave.finish(&results);
    *inputs = kept;
}
