//! Which instructions of a body are done in one loop.

use super::instr::apply_pair;
use crate::names::DType;
use crate::program::{Body, Instr, Prim};

/// What becomes of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// It has a loop of its own.
    Alone,
    /// It is done in the loop of the instruction at this position, its only reader.
    Inner(usize),
    /// It is done in one loop with its first argument, or its second.
    Outer { last: bool },
}

/// Pairs instructions: each with one of its arguments that nobody else reads, if there is a loop for
/// the two.
pub(super) fn pairs(body: &Body) -> Vec<Part> {
    let mut reads = vec![0; body.code.len()];
    for (instr, _) in &body.code {
        if let Instr::Apply(prim, args) = instr {
            args[..prim.arity()].iter().for_each(|arg| reads[usize::from(arg.0)] += 1);
        }
    }
    body.results.iter().for_each(|result| reads[usize::from(result.0)] += 1);
    let mut parts = vec![Part::Alone; body.code.len()];
    for (i, instr) in body.code.iter().enumerate() {
        let Some((outer, args)) = f32_of_two(instr) else { continue };
        let inner = |&k: &usize| {
            let arg = args[k];
            let (inner, _) = f32_of_two(&body.code[arg])?;
            let free = reads[arg] == 1 && parts[arg] == Part::Alone;
            (free && apply_pair([inner, outer], k == 1, [false; 3]).is_some()).then_some(arg)
        };
        let found = [0, 1].into_iter().find_map(|k| Some((k, inner(&k)?)));
        if let Some((k, arg)) = found {
            (parts[arg], parts[i]) = (Part::Inner(i), Part::Outer { last: k == 1 });
        }
    }
    parts
}

/// An operation of two numbers of f32 that gives one.
fn f32_of_two((instr, dtype): &(Instr, DType)) -> Option<(Prim, [usize; 2])> {
    match instr {
        Instr::Apply(prim, [a, b, _]) if prim.arity() == 2 && *dtype == DType::F32 => {
            Some((*prim, [a, b].map(|arg| usize::from(arg.0))))
        }
        _ => None,
    }
}
