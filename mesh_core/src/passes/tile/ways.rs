//! Which steps can be done tile by tile along the dims that lie outermost.

use crate::program::{Dims, Operand, Piece, Program, Step, ValueId};
use smallvec::SmallVec;

/// How a step goes along the dims that lie outermost in its outs.
pub(super) struct Ways {
    /// Sizes of these dims.
    pub(super) sizes: SmallVec<[usize; 3]>,
    /// Per input, in the order of [`Step::inputs`], whether a tile meets a tile of it, or all of it.
    pub(super) tiled: SmallVec<[bool; 4]>,
    /// Whether the dims are folded away, so that a tile gives a part of the out.
    pub(super) partial: bool,
}

/// How a step can be done tile by tile along the `depth` dims that lie outermost, if it can.
///
/// An input either has these dims outermost, in the same order, or has none of them. Products are
/// tiled along dims that both factors have: a product in pieces would pack its other factor for each.
pub(super) fn ways(program: &Program, step: &Step, depth: usize) -> Option<Ways> {
    let value = |id: ValueId| program.value(id);
    let first = *step.outs().first()?;
    let cut: Dims = value(first).order.iter().copied().take(depth).collect();
    let alike = |out: &ValueId| value(*out).order.iter().take(depth).eq(&cut);
    if !step.outs().iter().all(alike) {
        return None;
    }
    let mut partial = false;
    let in_order = || {
        let mut values = step.inputs().into_iter().chain(step.outs().iter().copied());
        values.all(|id| value(id).in_order())
    };
    let tiled = match step {
        Step::Map { inputs, .. } => operands(program, inputs.iter(), &cut)?,
        Step::Contract { lhs, rhs, .. } => {
            let tiled = operands(program, [lhs, rhs].into_iter(), &cut)?;
            tiled.iter().all(|&tiled| tiled).then_some(tiled)?
        }
        Step::Reduce { input, .. } => {
            let rank = value(first).extents.len();
            let dtype = value(first).dtype;
            partial = labels(program, input).take(depth).all(|label| usize::from(label) >= rank);
            match partial {
                true if dtype.reduction() == dtype => SmallVec::from_slice(&[true]),
                true => return None,
                false => operands(program, [input].into_iter(), &cut)?,
            }
        }
        _ if !in_order() => return None,
        Step::Sort { inputs, dim, .. } if usize::from(*dim) >= depth => {
            operands(program, inputs.iter(), &cut)?
        }
        Step::Gather { input, indices, .. } => {
            operands(program, [input, indices].into_iter(), &cut)?
        }
        Step::Scan { dim, .. } if usize::from(*dim) >= depth => SmallVec::from_slice(&[true]),
        Step::Reshape { input, out } => {
            let [from, to] = [input, out].map(|id| &value(*id).extents[..]);
            (from.get(..depth)? == to.get(..depth)?).then(|| SmallVec::from_slice(&[true]))?
        }
        Step::Move { pieces, out, .. } => {
            let kept = pieces.iter().all(|piece| keeps(program, piece, *out, depth));
            kept.then(|| SmallVec::from_elem(true, pieces.len()))?
        }
        _ => return None,
    };
    let of = match (partial, step) {
        (true, Step::Reduce { input, .. }) => value(input.value),
        _ => value(first),
    };
    let sizes = of.order.get(..depth)?.iter().map(|&dim| of.extents[usize::from(dim)]).collect();
    Some(Ways { sizes, tiled, partial })
}

/// The labels of an operand as its dims lie in memory, the outermost first.
fn labels<'a>(program: &'a Program, operand: &'a Operand) -> impl Iterator<Item = u8> {
    let order = program.value(operand.value).order.iter();
    order.map(|&dim| operand.dims[usize::from(dim)])
}

fn operands<'a>(
    program: &Program,
    inputs: impl Iterator<Item = &'a Operand>,
    cut: &[u8],
) -> Option<SmallVec<[bool; 4]>> {
    let tiled = |operand: &Operand| {
        let outermost = labels(program, operand).take(cut.len());
        let is_tiled = outermost.eq(cut.iter().copied());
        let is_free = !operand.dims.iter().any(|label| cut.contains(label));
        (is_tiled || is_free).then_some(is_tiled)
    };
    inputs.map(tiled).collect()
}

/// Whether a copy takes the first dims whole, and leaves them as they are.
fn keeps(program: &Program, piece: &Piece, out: ValueId, depth: usize) -> bool {
    let Piece { input, extents, .. } = piece;
    let [from, to] = [input.value, out].map(|id| program.value(id).extents.get(..depth));
    let copied = extents.get(..depth);
    // As long as what is read and written, it begins where they begin.
    let labels = input.dims.iter().take(depth).map(|&label| usize::from(label));
    copied.is_some() && from == copied && to == copied && labels.eq(0..depth)
}
