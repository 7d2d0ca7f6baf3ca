//! Where steps come from, as programs say it.

use crate::graph::{Provenance, Signature};
use crate::names::{AxisList, DimName, Placement};
use crate::program::{DimUse, Origin};
use crate::split::{Role, SplitRule};

/// What a program says of where steps come from.
pub(super) fn origin(op: &str, name: &str, at: Option<&Provenance>, slice: String) -> Origin {
    let (op, name) = (op.to_owned(), name.to_owned());
    let note = at.and_then(|at| at.note.as_deref()).unwrap_or_default().to_owned();
    let asker = at.and_then(|at| at.asker.as_ref());
    let owner = asker.map(|asker| asker.name.clone()).unwrap_or_default();
    let owner_at = asker.map(|asker| asker.at.to_string()).unwrap_or_default();
    let at = at.map(Provenance::line).unwrap_or_default();
    Origin { op, name, at, note, owner, owner_at, slice, ..Origin::default() }
}

/// The dims of an operation whose outputs and then inputs lie so; a loop's iterations are `along` one.
pub(super) fn dims(
    signature: Signature<'_>,
    placements: &[&Placement],
    rule: &SplitRule,
    along: Option<DimName>,
) -> Vec<DimUse> {
    let mut dims: Vec<DimUse> = Vec::new();
    let types = signature.outputs.iter().chain(signature.inputs);
    for (ty, placement) in types.zip(placements) {
        for dim in ty.shape.iter() {
            let axes = placement.axes(dim.name);
            match dims.iter_mut().find(|known| known.dim == dim) {
                Some(known) if known.axes.is_empty() => known.axes = AxisList::from_slice(axes),
                Some(_) => {}
                None => {
                    let whole = matches!(rule.role(dim.name), Role::Whole(_));
                    let splits = !whole && along != Some(dim.name);
                    dims.push(DimUse { dim, axes: AxisList::from_slice(axes), splits });
                }
            }
        }
    }
    dims
}
