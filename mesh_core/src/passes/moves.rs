//! Moves of moves become one: what is read of a move's result is read where that move read it.
//!
//! A piece looks through a move that nobody else needs if pieces of that move made all it reads; or all
//! but a margin, where both moves fill with the same number. Windows cut dim by dim, and margins put around
//! dim after dim, are then one copy; so is what is put together and turned. So are borders of a tensor's own elements, since rows that are looked up
//! by a few known indices are moved.

use super::uses::Uses;
use crate::array::Array;
use crate::program::forms::{Gather, Generate, Move, Piece};
use crate::program::{Block, Extents, Form, Generator, Offset, Operand, Scalar, Step, Value};
use smallvec::{SmallVec, smallvec};
use std::iter::zip;
use std::ops::Range;

/// Most pieces of a move that had fewer.
const MOST: usize = 32;

pub(super) fn run(block: &mut Block) {
    moved(block);
    loop {
        let has_changed = looked_through(block);
        super::dead::run(block);
        if !has_changed {
            return;
        }
    }
}

/// Makes pieces of moves read what was moved; whether some do that did not.
fn looked_through(block: &mut Block) -> bool {
    let uses = Uses::new(block);
    let mut has_changed = false;
    for position in 0..block.steps.len() {
        let (before, rest) = block.steps.split_at_mut(position);
        let Some(Step { form: Form::Move(outer), inputs, .. }) = rest.first_mut() else { continue };
        let mut i = 0;
        while i < outer.pieces.len() {
            let made = inputs[i].value;
            let maker = uses.maker[made.index()].filter(|_| uses.has_one_reader(made));
            let whole = &block.values[made.index()].extents;
            let found = match maker.map(|at| &before[at]) {
                Some(Step { form: Form::Move(inner), inputs: read, .. })
                    if turns_all(outer, &inputs[i], whole) =>
                {
                    outer.fill = inner.fill;
                    Some(turned(&inputs[i], inner, read))
                }
                Some(Step { form: Form::Move(inner), inputs: read, .. })
                    if in_order(&inputs[i], &outer.pieces[i]) =>
                {
                    through(outer, i, inner, read, whole)
                }
                _ => None,
            };
            let Some((pieces, operands)) = found else {
                i += 1;
                continue;
            };
            inputs.remove(i);
            inputs.insert_many(i, operands);
            let count = pieces.len();
            outer.pieces.splice(i..=i, pieces);
            (has_changed, i) = (true, i + count);
        }
    }
    has_changed
}

/// Makes moves of what looks up rows by a few indices that are known.
fn moved(block: &mut Block) {
    let uses = Uses::new(block);
    for position in 0..block.steps.len() {
        let step = &block.steps[position];
        let Form::Gather(gather) = &step.form else { continue };
        let table = uses.maker[step.inputs[1].value.index()].map(|maker| &block.steps[maker]);
        let known = table.and_then(|table| indices(table, block.value(step.inputs[1].value)));
        let Some(rows) = known.filter(|_| gather.begin.axes.is_empty()) else { continue };
        let Some((form, inputs)) = as_move(block, step, gather, &rows) else { continue };
        let step = &mut block.steps[position];
        (step.form, step.inputs) = (form.into(), inputs);
    }
}

/// The numbers of a table with one dim.
fn indices(step: &Step, value: &Value) -> Option<Vec<i32>> {
    let Form::Generate(Generate { generator: Generator::Table(table), begin, .. }) = &step.form
    else {
        return None;
    };
    let (Array::I32(table), [begin], [count]) = (&**table, &begin[..], &value.extents[..]) else {
        return None;
    };
    let from = begin.axes.is_empty().then_some(begin.base)?;
    Some(table.iter().skip(from).take(*count).copied().collect())
}

/// The move that looks up rows; `None` if it has many pieces, or if these have no form.
fn as_move(
    block: &Block,
    step: &Step,
    gather: &Gather,
    rows: &[i32],
) -> Option<(Move, SmallVec<[Operand; 2]>)> {
    let (input, out) = (&step.inputs[0], block.value(step.outs[0]));
    let &[along] = &step.inputs[1].dims[..] else { return None };
    let dim = input.dims.iter().position(|&label| label == gather.dim)?;
    if input.dims.contains(&along) {
        return None;
    }
    let there = block.value(input.value).extents[dim];
    let runs = runs(rows, gather.begin.base, there);
    let piece = |(at, rows): &(usize, Range<usize>)| {
        let mut piece = Piece {
            begin: vec![Offset::default(); input.dims.len()],
            at: smallvec![0; out.extents.len()],
            extents: out.extents.clone(),
        };
        piece.begin[dim] = Offset::fixed(rows.start);
        piece.at[usize::from(along)] = *at;
        piece.extents[usize::from(along)] = rows.len();
        piece
    };
    let mut from = input.clone();
    from.dims[dim] = along;
    let form = Move { pieces: runs.iter().map(piece).collect(), fill: Scalar::new(out.dtype, 0.0) };
    (!runs.is_empty() && runs.len() <= MOST).then(|| (form, smallvec![from; runs.len()]))
}

/// Rows that follow each other, and where the first of them is looked up; those outside of the first `count`
/// from `begin` on are left out.
fn runs(rows: &[i32], begin: usize, count: usize) -> Vec<(usize, Range<usize>)> {
    let mut runs: Vec<(usize, Range<usize>)> = Vec::new();
    for (at, &row) in rows.iter().enumerate() {
        let row = usize::try_from(i64::from(row) - begin as i64).unwrap_or(usize::MAX);
        match runs.last_mut() {
            _ if row >= count => {}
            Some((first, run)) if run.end == row && *first + run.len() == at => run.end += 1,
            _ => runs.push((at, row..row + 1)),
        }
    }
    runs
}

/// Whether the dims of what a piece reads are those of what it writes.
fn in_order(operand: &Operand, piece: &Piece) -> bool {
    operand.is_whole() && operand.dims.len() == piece.at.len()
}

/// Whether a move copies all of what it reads, in another order of dims.
fn turns_all(outer: &Move, operand: &Operand, whole: &Extents) -> bool {
    let [piece] = &outer.pieces[..] else { return false };
    let begins = piece.begin.iter().all(|begin| *begin == Offset::default());
    let turned = |(dim, &label): (usize, &u8)| whole[dim] == piece.extents[usize::from(label)];
    let is_permuted = operand.dims.len() == piece.at.len() && !operand.is_whole();
    let covers = operand.dims.iter().enumerate().all(turned);
    begins && is_permuted && covers && piece.at.iter().all(|&at| at == 0)
}

/// The pieces of a move whose result is turned, and what each reads.
fn turned(by: &Operand, inner: &Move, read: &[Operand]) -> (Vec<Piece>, Vec<Operand>) {
    let turn = |of: &Extents| {
        let mut turned = of.clone();
        zip(&by.dims, of).for_each(|(&label, &extent)| turned[usize::from(label)] = extent);
        turned
    };
    let piece = |piece: &Piece| Piece {
        begin: piece.begin.clone(),
        at: turn(&piece.at),
        extents: turn(&piece.extents),
    };
    let operand = |from: &Operand| Operand {
        value: from.value,
        dims: from.dims.iter().map(|&label| by.dims[usize::from(label)]).collect(),
    };
    (inner.pieces.iter().map(piece).collect(), read.iter().map(operand).collect())
}

/// What a piece of the outer move becomes that reads what the inner one read: pieces, and what each reads.
fn through(
    outer: &Move,
    i: usize,
    inner: &Move,
    read: &[Operand],
    whole: &Extents,
) -> Option<(Vec<Piece>, Vec<Operand>)> {
    let wanted = &outer.pieces[i];
    if wanted.begin.iter().any(|begin| !begin.axes.is_empty()) {
        return anywhere(wanted, inner, read, whole);
    }
    let met = zip(&inner.pieces, read)
        .filter_map(|(piece, from)| overlap(wanted, piece).map(|ranges| (piece, from, ranges)));
    let met: Vec<_> = met.collect();
    if met.is_empty() || met.len() > 1 && outer.pieces.len() + met.len() > MOST {
        return None;
    }
    let apart = |a: &Ranges, b: &Ranges| zip(a, b).any(|(a, b)| a.1 <= b.0 || b.1 <= a.0);
    let mut pairs =
        met.iter().enumerate().flat_map(|(k, a)| met[k + 1..].iter().map(move |b| (a, b)));
    let are_apart = pairs.all(|((.., a), (.., b))| apart(a, b));
    let len = |ranges: &Ranges| ranges.iter().map(|(low, high)| high - low).product::<usize>();
    let covered: usize = met.iter().map(|(_, _, ranges)| len(ranges)).sum();
    let margin = !are_apart || covered != wanted.extents.iter().product::<usize>();
    if margin && (outer.pieces.len() > 1 || outer.fill != inner.fill) {
        return None;
    }
    let part = |(piece, from, ranges): (&Piece, &Operand, Ranges)| {
        Some((part(wanted, piece, &ranges, from)?, from.clone()))
    };
    met.into_iter().map(part).collect()
}

/// As [`through`], where it depends on the processor what is wanted: all that was made has to be of one piece.
fn anywhere(
    wanted: &Piece,
    inner: &Move,
    read: &[Operand],
    whole: &Extents,
) -> Option<(Vec<Piece>, Vec<Operand>)> {
    let ([piece], [from]) = (&inner.pieces[..], read) else { return None };
    if piece.extents != *whole || !in_order(from, piece) {
        return None;
    }
    let begin = zip(&wanted.begin, &piece.begin).map(|(outer, inner)| sum(outer, inner));
    let piece = Piece { begin: begin.collect::<Option<_>>()?, ..wanted.clone() };
    Some((vec![piece], vec![from.clone()]))
}

/// The part of a wanted piece that a piece made, read where that was read.
fn part(wanted: &Piece, made: &Piece, ranges: &Ranges, from: &Operand) -> Option<Piece> {
    if !in_order(from, made) {
        return None;
    }
    let low = |k: usize| ranges[k].0;
    let begin = |(k, begin): (usize, &Offset)| sum(begin, &Offset::fixed(low(k) - made.at[k]));
    let begin: Option<Vec<_>> = made.begin.iter().enumerate().map(begin).collect();
    let at = wanted.at.iter().enumerate().map(|(k, at)| at + low(k) - wanted.begin[k].base);
    let extents = ranges.iter().map(|(low, high)| high - low).collect();
    Some(Piece { begin: begin?, at: at.collect(), extents })
}

/// From where to where, per dim.
type Ranges = Vec<(usize, usize)>;

/// Per dim, from where to where a piece of what is made is wanted; `None` if nothing of it is.
fn overlap(wanted: &Piece, made: &Piece) -> Option<Ranges> {
    let range = |k: usize| {
        let (from, at) = (wanted.begin[k].base, made.at[k]);
        let (low, high) = (from.max(at), (from + wanted.extents[k]).min(at + made.extents[k]));
        (low < high).then_some((low, high))
    };
    (0..made.at.len()).map(range).collect()
}

/// One position after another, where at most one of them depends on the processor.
fn sum(a: &Offset, b: &Offset) -> Option<Offset> {
    let (moving, still) = if a.axes.is_empty() { (b, a) } else { (a, b) };
    still.axes.is_empty().then(|| Offset { base: a.base + b.base, ..moving.clone() })
}
