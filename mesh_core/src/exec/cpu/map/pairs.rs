//! Which instructions of a body are done in one loop.

use super::instr::apply_pair;
use super::tile::ARGS;
use crate::names::DType;
use crate::program::{Body, Instr, Prim};

/// What becomes of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// It has a loop of its own.
    Alone,
    /// It is done in the loop of the instruction at this position, its only reader.
    Inner(usize),
    /// It is done in one loop with this argument.
    Outer(usize),
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
        let (Instr::Apply(outer, args), DType::F32) = instr else { continue };
        let inner = |k: usize| {
            let arg = usize::from(args[k].0);
            let inner = of_two_f32(body, arg)?;
            let free = reads[arg] == 1 && parts[arg] == Part::Alone;
            (free && apply_pair([inner, *outer], k, [false; ARGS]).is_some()).then_some(arg)
        };
        let found = (0..outer.arity().min(2)).find_map(|k| Some((k, inner(k)?)));
        if let Some((k, arg)) = found {
            (parts[arg], parts[i]) = (Part::Inner(i), Part::Outer(k));
        }
    }
    parts
}

/// The operation of instruction `i` if it is one on two numbers of f32.
fn of_two_f32(body: &Body, i: usize) -> Option<Prim> {
    match body.code[i].0 {
        Instr::Apply(prim, [a, _, _]) if prim.arity() == 2 => {
            (body.code[usize::from(a.0)].1 == DType::F32).then_some(prim)
        }
        _ => None,
    }
}
