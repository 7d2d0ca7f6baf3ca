//! Which steps can be done tile by tile along the dims that lie outermost.

use crate::program::{Block, Dims, Form, Operand, Piece, Step, Value, ValueId};
use smallvec::SmallVec;

/// How a step is done tile by tile along the dims that lie outermost in its outs.
pub(super) struct Tiling {
    /// Sizes of these dims.
    pub(super) sizes: SmallVec<[usize; 3]>,
    /// Per input, in order, whether a tile meets a tile of it, or all of it.
    pub(super) tiled: SmallVec<[bool; 4]>,
    /// Whether the dims are folded away, so that a tile gives a part of the out.
    pub(super) partial: bool,
}

/// How a step can be done tile by tile along the `depth` dims that lie outermost, if it can.
///
/// An input either has these dims outermost, in the same order, or has none of them. Products are
/// tiled along dims that both factors have: a product in pieces would pack its other factor for each.
pub(super) fn tiling(block: &Block, step: &Step, depth: usize) -> Option<Tiling> {
    let value = |id: ValueId| block.value(id);
    let first = *step.outs.first()?;
    let cut: Dims = value(first).order.iter().copied().take(depth).collect();
    let alike = |out: &ValueId| value(*out).order.iter().take(depth).eq(&cut);
    if !step.outs.iter().all(alike) {
        return None;
    }
    let mut of = value(first);
    let mut partial = false;
    let in_order = || step.values().all(|id| value(id).in_order());
    let tiled = match &step.form {
        Form::Map(_) => operands(block, &step.inputs, &cut)?,
        Form::Contract(_) => {
            let tiled = operands(block, &step.inputs, &cut)?;
            tiled.iter().all(|&tiled| tiled).then_some(tiled)?
        }
        Form::Reduce(_) => {
            let (rank, dtype, input) = (of.extents.len(), of.dtype, &step.inputs[0]);
            partial = labels(block, input).take(depth).all(|label| usize::from(label) >= rank);
            if partial {
                of = value(input.value);
            }
            match partial {
                true if dtype.reduction() == dtype => SmallVec::from_slice(&[true]),
                true => return None,
                false => operands(block, &step.inputs, &cut)?,
            }
        }
        _ if !in_order() => return None,
        Form::Sort(form) if usize::from(form.dim) >= depth => operands(block, &step.inputs, &cut)?,
        Form::Gather(_) => operands(block, &step.inputs, &cut)?,
        Form::Scan(form) if usize::from(form.dim) >= depth => SmallVec::from_slice(&[true]),
        Form::Reshape(_) => {
            let from = value(step.inputs[0].value).extents.get(..depth)?;
            (from == of.extents.get(..depth)?).then(|| SmallVec::from_slice(&[true]))?
        }
        Form::Move(form) => {
            let mut pieces = form.pieces.iter().zip(&step.inputs);
            let kept = pieces.all(|(piece, input)| keeps(block, piece, input, of, depth));
            kept.then(|| SmallVec::from_elem(true, form.pieces.len()))?
        }
        _ => return None,
    };
    let sizes = of.order.get(..depth)?.iter().map(|&dim| of.extents[usize::from(dim)]).collect();
    Some(Tiling { sizes, tiled, partial })
}

/// The labels of an operand as its dims lie in memory, the outermost first.
fn labels<'a>(block: &'a Block, operand: &'a Operand) -> impl Iterator<Item = u8> {
    let order = block.value(operand.value).order.iter();
    order.map(|&dim| operand.dims[usize::from(dim)])
}

fn operands(block: &Block, inputs: &[Operand], cut: &[u8]) -> Option<SmallVec<[bool; 4]>> {
    let tiled = |operand: &Operand| {
        let outermost = labels(block, operand).take(cut.len());
        let is_tiled = outermost.eq(cut.iter().copied());
        let is_free = !operand.dims.iter().any(|label| cut.contains(label));
        (is_tiled || is_free).then_some(is_tiled)
    };
    inputs.iter().map(tiled).collect()
}

/// Whether a copy takes the first dims whole, and leaves them as they are.
fn keeps(block: &Block, piece: &Piece, input: &Operand, out: &Value, depth: usize) -> bool {
    let [from, to] = [block.value(input.value), out].map(|value| value.extents.get(..depth));
    let copied = piece.extents.get(..depth);
    // As long as what is read and written, it begins where they begin.
    let labels = input.dims.iter().take(depth).map(|&label| usize::from(label));
    copied.is_some() && from == copied && to == copied && labels.eq(0..depth)
}
