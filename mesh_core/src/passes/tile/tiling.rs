//! Which steps can be done tile by tile along the dims that lie outermost.

use crate::program::{Block, Dims, Form, Operand, Piece, Step, Value, ValueId};
use smallvec::SmallVec;

/// How a step is done tile by tile along the dims that lie outermost in its outs.
pub(super) struct Tiling {
    /// Sizes of these dims.
    pub(super) sizes: SmallVec<[usize; 3]>,
    /// Per input, in order, what a tile meets of it.
    pub(super) met: SmallVec<[Met; 4]>,
    /// How many of the dims, the last of them, are folded away; then a tile gives a part of the out.
    pub(super) folded: usize,
}

/// What a tile of a step meets of an input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Met {
    /// All of it.
    All,
    /// A tile of it.
    Tile,
    /// What lies at its position of so many of the dims, the first of them. The input lacks the others.
    First(usize),
}

/// A small input that lacks dims is repeated for tiles along them, if that makes it no larger than this part of the out.
const SMALLER: usize = 8;
/// Bytes of a small factor.
const FACTOR: usize = 16 << 10;

/// How a step can be done tile by tile along the `depth` dims that lie outermost, if it can.
///
/// An input either has these dims outermost, in the same order, or has none of them; a small one of an elementwise
/// step may have the first of them. Products are tiled along dims that both factors have, or where the other one is
/// small: a product in pieces packs it for each.
pub(super) fn tiling(block: &Block, step: &Step, depth: usize) -> Option<Tiling> {
    let value = |id: ValueId| block.value(id);
    let first = *step.outs.first()?;
    let cut: Dims = value(first).order.iter().copied().take(depth).collect();
    let alike = |out: &ValueId| value(*out).order.iter().take(depth).eq(&cut);
    if !step.outs.iter().all(alike) {
        return None;
    }
    let mut of = value(first);
    let mut folded = 0;
    let in_order = || step.values().all(|id| value(id).in_order());
    let met = match &step.form {
        Form::Map(map) if map.reads_all() => {
            let over = Operand::whole(first, of.extents.len());
            mapped(block, &step.inputs, &over, &cut)?
        }
        Form::Contract(_) => {
            let met = operands(block, &step.inputs, &cut)?;
            let packs =
                step.inputs.iter().zip(&met).any(|(input, met)| {
                    *met != Met::Tile && block.value(input.value).bytes() > FACTOR
                });
            (!packs).then_some(met)?
        }
        Form::Reduce(_) => {
            let rank = of.extents.len();
            let input = step.inputs.iter().max_by_key(|input| input.dims.len())?;
            let outermost: Dims = labels(block, input).take(depth).collect();
            let has_all = |other: &Operand| other.dims.iter().all(|dim| input.dims.contains(dim));
            if !step.inputs.iter().all(has_all) {
                return None;
            }
            let is_folded = |label: &&u8| usize::from(**label) >= rank;
            folded = outermost.iter().rev().take_while(is_folded).count();
            if folded == 0 {
                mapped(block, &step.inputs, input, &cut)?
            } else {
                let kept = outermost.len() - folded;
                let gives_parts = of.dtype.reduction() == of.dtype
                    && outermost[..kept].iter().map(|&label| usize::from(label)).eq(0..kept)
                    && (kept == 0 || of.in_order());
                of = value(input.value);
                gives_parts.then(|| mapped(block, &step.inputs, input, &outermost))??
            }
        }
        _ if !in_order() => return None,
        Form::Sort(form) if usize::from(form.dim) >= depth => operands(block, &step.inputs, &cut)?,
        Form::Gather(_) => operands(block, &step.inputs, &cut)?,
        Form::Scan(form) if usize::from(form.dim) >= depth => SmallVec::from_slice(&[Met::Tile]),
        Form::Reshape(_) => {
            let from = value(step.inputs[0].value).extents.get(..depth)?;
            (from == of.extents.get(..depth)?).then(|| SmallVec::from_slice(&[Met::Tile]))?
        }
        Form::Move(form) => {
            let mut pieces = form.pieces.iter().zip(&step.inputs);
            let kept = pieces.all(|(piece, input)| keeps(block, piece, input, of, depth));
            kept.then(|| SmallVec::from_elem(Met::Tile, form.pieces.len()))?
        }
        _ => return None,
    };
    let sizes = of.order.get(..depth)?.iter().map(|&dim| of.extents[usize::from(dim)]).collect();
    Some(Tiling { sizes, met, folded })
}

/// The labels of an operand as its dims lie in memory, the outermost first.
fn labels<'a>(block: &'a Block, operand: &'a Operand) -> impl Iterator<Item = u8> {
    let order = block.value(operand.value).order.iter();
    order.map(|&dim| operand.dims[usize::from(dim)])
}

fn operands(block: &Block, inputs: &[Operand], cut: &[u8]) -> Option<SmallVec<[Met; 4]>> {
    inputs.iter().map(|input| operand(block, input, cut)).collect()
}

fn operand(block: &Block, operand: &Operand, cut: &[u8]) -> Option<Met> {
    if labels(block, operand).take(cut.len()).eq(cut.iter().copied()) {
        return Some(Met::Tile);
    }
    let is_free = !operand.dims.iter().any(|label| cut.contains(label));
    is_free.then_some(Met::All)
}

/// As [`operands`], of an elementwise step over the dims of an operand.
fn mapped(
    block: &Block,
    inputs: &[Operand],
    over: &Operand,
    cut: &[u8],
) -> Option<SmallVec<[Met; 4]>> {
    let all = block.value(over.value);
    let labelled = |label: &u8| over.dims.iter().position(|own| own == label);
    let extent = |label: &u8| labelled(label).map_or(1, |dim| all.extents[dim]);
    let of = |input: &Operand| {
        if let Some(met) = operand(block, input, cut) {
            return Some(met);
        }
        let first = labels(block, input).zip(cut).take_while(|(label, cut)| label == *cut).count();
        let lacks = &cut[first..];
        let value = block.value(input.value);
        let lacks_the_rest = !input.dims.iter().any(|label| lacks.contains(label));
        let times: usize = lacks.iter().map(extent).product();
        let is_small = value.bytes() * times * SMALLER <= all.bytes();
        let fits = first > 0 && lacks_the_rest && is_small && value.in_order();
        fits.then_some(Met::First(first))
    };
    inputs.iter().map(of).collect()
}

/// Whether a copy takes the first dims whole, and leaves them as they are.
fn keeps(block: &Block, piece: &Piece, input: &Operand, out: &Value, depth: usize) -> bool {
    let [from, to] = [block.value(input.value), out].map(|value| value.extents.get(..depth));
    let copied = piece.extents.get(..depth);
    // As long as what is read and written, it begins where they begin.
    let labels = input.dims.iter().take(depth).map(|&label| usize::from(label));
    copied.is_some() && from == copied && to == copied && labels.eq(0..depth)
}
