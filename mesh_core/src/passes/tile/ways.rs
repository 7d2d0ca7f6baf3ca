//! Which steps can be done tile by tile along their first dims.

use crate::program::{Operand, Piece, Program, Step, ValueId};
use smallvec::SmallVec;

/// How a step goes along the first dims of its outs.
pub(super) struct Ways {
    /// Sizes of these dims.
    pub(super) sizes: SmallVec<[usize; 3]>,
    /// Per input, in the order of [`Step::inputs`], whether a tile meets a tile of it, or all of it.
    pub(super) tiled: SmallVec<[bool; 4]>,
    /// Whether the dims are folded away, so that a tile gives a part of the out.
    pub(super) partial: bool,
}

/// How a step can be done tile by tile along the first `depth` dims, if it can.
///
/// An input either has these dims first, in the same order, or has none of them. Products are tiled
/// along dims that both factors have: a product in pieces would pack its other factor for each.
pub(super) fn ways(program: &Program, step: &Step, depth: usize) -> Option<Ways> {
    let extents = |value: ValueId| &program.value(value).extents[..];
    let mut values = step.inputs();
    values.extend(step.outs());
    if !values.iter().all(|&value| program.value(value).in_order()) {
        return None;
    }
    let mut partial = false;
    let tiled = match step {
        Step::Map { inputs, .. } => operands(inputs.iter(), depth)?,
        Step::Sort { inputs, dim, .. } if usize::from(*dim) >= depth => {
            operands(inputs.iter(), depth)?
        }
        Step::Gather { input, indices, .. } => operands([input, indices].into_iter(), depth)?,
        Step::Contract { lhs, rhs, .. } => {
            let tiled = operands([lhs, rhs].into_iter(), depth)?;
            tiled.iter().all(|&tiled| tiled).then_some(tiled)?
        }
        Step::Reduce { input, out, .. } => {
            let rank = extents(*out).len();
            let first = input.dims.get(..depth)?;
            let dtype = program.value(*out).dtype;
            partial = first.iter().all(|&label| usize::from(label) >= rank);
            match partial {
                true if dtype.reduction() == dtype => SmallVec::from_slice(&[true]),
                true => return None,
                false => operands([input].into_iter(), depth)?,
            }
        }
        Step::Scan { dim, .. } if usize::from(*dim) >= depth => SmallVec::from_slice(&[true]),
        Step::Reshape { input, out } => {
            let same = extents(*input).get(..depth)? == extents(*out).get(..depth)?;
            same.then(|| SmallVec::from_slice(&[true]))?
        }
        Step::Move { pieces, out, .. } => {
            let kept = pieces.iter().all(|piece| keeps(piece, extents(*out), depth));
            kept.then(|| SmallVec::from_elem(true, pieces.len()))?
        }
        _ => return None,
    };
    let of = match (partial, step) {
        (true, Step::Reduce { input, .. }) => input.value,
        _ => *step.outs().first()?,
    };
    let sizes = SmallVec::from_slice(extents(of).get(..depth)?);
    Some(Ways { sizes, tiled, partial })
}

fn operands<'a>(
    inputs: impl Iterator<Item = &'a Operand>,
    depth: usize,
) -> Option<SmallVec<[bool; 4]>> {
    let tiled = |operand: &Operand| {
        let first = operand.dims.iter().take(depth).map(|&label| usize::from(label));
        let is_tiled = operand.dims.len() >= depth && first.eq(0..depth);
        let is_free = operand.dims.iter().all(|&label| usize::from(label) >= depth);
        (is_tiled || is_free).then_some(is_tiled)
    };
    inputs.map(tiled).collect()
}

/// Whether a copy takes the first dims as they are.
fn keeps(piece: &Piece, extents: &[usize], depth: usize) -> bool {
    let labels = piece.input.dims.iter().take(depth).map(|&label| usize::from(label));
    labels.eq(0..depth)
        && piece.begin.iter().take(depth).all(|begin| begin.base == 0 && begin.axes.is_empty())
        && piece.at[..depth].iter().all(|&at| at == 0)
        && piece.extents[..depth] == extents[..depth]
}
