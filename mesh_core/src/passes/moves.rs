//! Moves of moves become one: what is read of a move's result is read where that move read it.
//!
//! A piece looks through a move that nobody else needs if one piece of that move made all it reads; or all
//! but a margin, where both moves fill with the same number. Windows cut dim by dim, and margins put around
//! dim after dim, are then one copy.

use super::uses::Uses;
use crate::program::forms::{Move, Piece};
use crate::program::{Block, Extents, Form, Offset, Operand, Step};
use std::iter::zip;

pub(super) fn run(block: &mut Block) {
    let uses = Uses::new(block);
    for position in 0..block.steps.len() {
        let (before, rest) = block.steps.split_at_mut(position);
        let Some(Step { form: Form::Move(outer), inputs, .. }) = rest.first_mut() else { continue };
        for i in 0..outer.pieces.len() {
            let made = inputs[i].value;
            let maker = uses.maker[made.index()].filter(|_| uses.has_one_reader(made));
            let Some(Step { form: Form::Move(inner), inputs: read, .. }) =
                maker.map(|at| &before[at])
            else {
                continue;
            };
            if !in_order(&inputs[i], &outer.pieces[i]) {
                continue;
            }
            let whole = &block.values[made.index()].extents;
            if let Some((piece, operand)) = through(outer, i, inner, read, whole) {
                (outer.pieces[i], inputs[i]) = (piece, operand);
            }
        }
    }
    super::dead::run(block);
}

/// Whether the dims of what a piece reads are those of what it writes.
fn in_order(operand: &Operand, piece: &Piece) -> bool {
    operand.is_whole() && operand.dims.len() == piece.at.len()
}

/// A piece of the outer move that reads what the inner one read, and the operand that it reads.
fn through(
    outer: &Move,
    i: usize,
    inner: &Move,
    read: &[Operand],
    whole: &Extents,
) -> Option<(Piece, Operand)> {
    let wanted = &outer.pieces[i];
    let fixed = wanted.begin.iter().all(|begin| begin.axes.is_empty());
    let overlap = |piece: &Piece| match fixed {
        true => overlap(wanted, piece),
        // Where it is read depends on the processor: anywhere.
        false => {
            Some(zip(&piece.at, &piece.extents).map(|(&at, &extent)| (at, at + extent)).collect())
        }
    };
    let mut met =
        zip(&inner.pieces, read).filter_map(|(piece, from)| Some((piece, from, overlap(piece)?)));
    let (Some((piece, from, ranges)), None) = (met.next(), met.next()) else { return None };
    if !in_order(from, piece) {
        return None;
    }
    let offset = |(outer, inner): (&Offset, &Offset)| sum(outer, inner);
    if !fixed {
        let is_all = zip(&ranges, whole).all(|(&range, &extent)| range == (0, extent));
        let begin: Option<Vec<_>> = zip(&wanted.begin, &piece.begin).map(offset).collect();
        let (at, extents) = (wanted.at.clone(), wanted.extents.clone());
        return begin.filter(|_| is_all).map(|begin| (Piece { begin, at, extents }, from.clone()));
    }
    let extents: Extents = ranges.iter().map(|(low, high)| high - low).collect();
    let margin = extents != wanted.extents;
    if margin && (outer.pieces.len() > 1 || outer.fill != inner.fill) {
        return None;
    }
    let low = |k: usize| ranges[k].0;
    let begin = |(k, begin): (usize, &Offset)| sum(begin, &Offset::fixed(low(k) - piece.at[k]));
    let begin: Option<Vec<_>> = piece.begin.iter().enumerate().map(begin).collect();
    let at =
        wanted.at.iter().enumerate().map(|(k, at)| at + low(k) - wanted.begin[k].base).collect();
    Some((Piece { begin: begin?, at, extents }, from.clone()))
}

/// Per dim, from where to where a piece of what is made is wanted; `None` if nothing of it is.
fn overlap(wanted: &Piece, made: &Piece) -> Option<Vec<(usize, usize)>> {
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
