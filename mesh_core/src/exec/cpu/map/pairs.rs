//! Which instructions of a body are done in one loop, and the loops.

use super::idioms;
use super::instr::{self, Add, Div, Eq, Le, Lt, Max, Min, Mul, Sub};
use super::tile::{ARGS, Binary, ChooseBy, Kind, Pair, Run};
use super::triples::has_triple;
use crate::exec::cpu::isa::compiled;
use crate::names::DType;
use crate::program::{Body, Instr, Prim};

/// What becomes of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// It has a loop of its own.
    Alone,
    /// It is done in the loop of the instruction at this position: its only reader, or the only reader of that.
    Inner(usize),
    /// It is done in one loop with this argument, and with what that is done with.
    Outer(usize),
    /// It is done in one loop with all of its [idiom](super::idioms).
    Idiom,
}

/// Pairs instructions: each with one of its arguments that nobody else reads, if there is a loop for
/// the two; or with a pair, if there is one for the three. What is an idiom is not paired.
///
/// Instructions that are `made` in the body's last loop have none.
pub(super) fn pairs(body: &Body, made: &[usize]) -> Vec<Part> {
    let mut reads = vec![0; body.code.len()];
    for (instr, _) in &body.code {
        if let Instr::Apply(prim, args) = instr {
            args[..prim.arity()].iter().for_each(|arg| reads[usize::from(arg.0)] += 1);
        }
    }
    body.results.iter().for_each(|result| reads[usize::from(result.0)] += 1);
    let mut parts = vec![Part::Alone; body.code.len()];
    for i in (0..body.code.len()).rev() {
        let free = |at: &usize| parts[*at] == Part::Alone && !made.contains(at);
        let found = if free(&i) { idioms::find(body, i) } else { None };
        if let Some(found) = found.filter(|found| found.inner.iter().all(free)) {
            found.inner.iter().for_each(|&at| parts[at] = Part::Inner(i));
            parts[i] = Part::Idiom;
        }
    }
    for (i, instr) in body.code.iter().enumerate() {
        let (Instr::Apply(outer, args), DType::F32 | DType::I32) = instr else { continue };
        if parts[i] != Part::Alone {
            continue;
        }
        if made.contains(&i) {
            parts[i] = Part::Inner(body.code.len());
            continue;
        }
        let inner = |k: usize| {
            let arg = usize::from(args[k].0);
            let free = reads[arg] == 1 && parts[arg] == Part::Alone;
            let found = match of_two(body, arg) {
                Some((inner, kind)) => {
                    apply_pair([inner, *outer], kind, k, [false; ARGS]).is_some()
                }
                None => gate(body, i, k).is_some(),
            };
            (free && found).then_some(arg)
        };
        let found = (0..outer.arity().min(2)).find_map(|k| Some((k, inner(k)?)));
        if let Some((k, arg)) = found {
            (parts[arg], parts[i]) = (Part::Inner(i), Part::Outer(k));
            continue;
        }
        let found = (0..outer.arity().min(2)).find_map(|k| Some((k, first(body, &parts, i, k)?)));
        if let Some((k, first)) = found {
            let at = usize::from(args[k].0);
            if reads[at] == 1 {
                (parts[first], parts[at]) = (Part::Inner(i), Part::Inner(i));
                parts[i] = Part::Outer(k);
            }
        }
    }
    parts
}

/// What argument `at` of instruction `i` is paired with, if there is a loop for the three.
fn first(body: &Body, parts: &[Part], i: usize, at: usize) -> Option<usize> {
    let Instr::Apply(outer, args) = body.code[i].0 else { return None };
    let pair = usize::from(args[at].0);
    let (Part::Outer(within), Instr::Apply(middle, of)) = (parts[pair], body.code[pair].0) else {
        return None;
    };
    let first = usize::from(of[within].0);
    let (inner, kind) = of_two(body, first)?;
    // A loop for three is whole.
    let Instr::Apply(_, [one, other, _]) = body.code[first].0 else { return None };
    if [one, other].iter().any(|arg| parts[usize::from(arg.0)] == Part::Inner(pair)) {
        return None;
    }
    let found = kind == Kind::F32 && has_triple([inner, middle, outer], within == 1);
    found.then_some(first)
}

/// The loop for instruction `i` and its argument `at`, if it multiplies a number of f32 by a function of it,
/// which is that argument.
pub(super) fn gate(body: &Body, i: usize, at: usize) -> Option<Run> {
    let (Instr::Apply(Prim::Mul, args), DType::F32) = body.code[i] else { return None };
    let (function, other) = (args[at], args[1 - at]);
    match body.code[usize::from(function.0)].0 {
        Instr::Apply(prim, [of, ..]) if prim.arity() == 1 && of == other => instr::gate(prim),
        _ => None,
    }
}

/// The operation of instruction `i` if it is one on two numbers of 4 bytes, and how these are held.
fn of_two(body: &Body, i: usize) -> Option<(Prim, Kind)> {
    let Instr::Apply(prim, [a, _, _]) = body.code[i].0 else { return None };
    let kind = match body.code[usize::from(a.0)].1 {
        DType::F32 => Kind::F32,
        DType::I32 => Kind::I32,
        _ => return None,
    };
    (prim.arity() == 2).then_some((prim, kind))
}

fn pair<I, O, const LAST: bool>([a, b, c, _]: [bool; ARGS]) -> Option<Run>
where
    I: Binary<Out = <I as Binary>::In>,
    O: Binary<In = I::In>,
{
    Some(match [a, b, c] {
        [false, false, false] => compiled::<Pair<I, O, LAST, 0b000>>(),
        [true, false, false] => compiled::<Pair<I, O, LAST, 0b001>>(),
        [false, true, false] => compiled::<Pair<I, O, LAST, 0b010>>(),
        [false, false, true] => compiled::<Pair<I, O, LAST, 0b100>>(),
        [true, false, true] => compiled::<Pair<I, O, LAST, 0b101>>(),
        [false, true, true] => compiled::<Pair<I, O, LAST, 0b110>>(),
        _ => return None,
    })
}

/// The loop for a choice by a comparison, if what is compared varies.
fn choose_by<O: Binary<Out = u8>>([a, b, c, d]: [bool; ARGS]) -> Option<Run> {
    macro_rules! alternatives {
        ($compared:literal) => {
            match (c, d) {
                (false, false) => compiled::<ChooseBy<O, { $compared }>>(),
                (true, false) => compiled::<ChooseBy<O, { $compared | 0b0100 }>>(),
                (false, true) => compiled::<ChooseBy<O, { $compared | 0b1000 }>>(),
                (true, true) => compiled::<ChooseBy<O, { $compared | 0b1100 }>>(),
            }
        };
    }
    Some(match (a, b) {
        (false, false) => alternatives!(0b00),
        (true, false) => alternatives!(0b01),
        (false, true) => alternatives!(0b10),
        (true, true) => return None,
    })
}

/// The loop for a comparison of `a` and `b` and the choice between `c` and `d`, of 4 bytes each, by it, and
/// which argument goes where.
fn apply_choice(compare: Prim, kind: Kind, uniform: [bool; ARGS]) -> Option<(Run, [usize; ARGS])> {
    let order = match compare {
        Prim::Lt | Prim::Le | Prim::Eq => [0, 1, 2, 3],
        Prim::Gt | Prim::Ge => [1, 0, 2, 3],
        Prim::Ne => [0, 1, 3, 2],
        _ => return None,
    };
    let uniform = order.map(|k| uniform[k]);
    let run = match (compare, kind) {
        (Prim::Lt | Prim::Gt, Kind::F32) => choose_by::<Lt<f32>>(uniform),
        (Prim::Le | Prim::Ge, Kind::F32) => choose_by::<Le<f32>>(uniform),
        (_, Kind::F32) => choose_by::<Eq<f32>>(uniform),
        (Prim::Lt | Prim::Gt, Kind::I32) => choose_by::<Lt<i32>>(uniform),
        (Prim::Le | Prim::Ge, Kind::I32) => choose_by::<Le<i32>>(uniform),
        (_, Kind::I32) => choose_by::<Eq<i32>>(uniform),
        _ => return None,
    };
    Some((run?, order))
}

/// The loop for two primitives on numbers of 4 bytes, where the inner one's result is argument `at` of the outer
/// one, and which argument goes where: the inner one's, held as `kind`, come first. A cast of a comparison is a
/// choice between 1 and 0. The bits are those of one after the other, for a load, a store and a call less.
pub(super) fn apply_pair(
    [inner, outer]: [Prim; 2],
    kind: Kind,
    at: usize,
    uniform: [bool; ARGS],
) -> Option<(Run, [usize; ARGS])> {
    match outer {
        Prim::Select | Prim::Cast if at == 0 => apply_choice(inner, kind, uniform),
        _ if kind == Kind::F32 => {
            Some((apply_numbers([inner, outer], at == 1, uniform)?, [0, 1, 2, 3]))
        }
        _ => None,
    }
}

/// The loop for `outer(inner(a, b), c)`, or `outer(c, inner(a, b))` if the inner one comes `last`.
fn apply_numbers([inner, outer]: [Prim; 2], last: bool, uniform: [bool; ARGS]) -> Option<Run> {
    macro_rules! table {
        ($($inner:ident $outer:ident $last:pat => $side:literal,)*) => {
            match (inner, outer, last) {
                $((Prim::$inner, Prim::$outer, $last) => {
                    pair::<$inner<f32>, $outer<f32>, $side>(uniform)
                })*
                _ => None,
            }
        };
    }
    table! {
        Mul Add _ => false,
        Mul Sub false => false,
        Mul Sub true => true,
        Mul Mul _ => false,
        Mul Div false => false,
        Sub Mul _ => false,
        Add Mul _ => false,
        Add Add _ => false,
        Add Max false => false,
        Min Mul _ => false,
        Mul Max false => false,
        Mul Max true => true,
        Max Min false => false,
        Max Min true => true,
        Min Max false => false,
        Min Max true => true,
    }
}
