//! Which tensors hold what is fed, moved and not computed with: every layout gives their bits.

use super::graph::OWED;
use mesh_core::graph::{Graph, Kind, OperationView, Signature, TensorId, TensorType};
use mesh_core::split::Linearity;
use std::collections::BTreeSet;

/// The tensors of a graph whose elements are elements of feeds, constants and variables, or come
/// from those without rounding.
pub(super) fn moved(graph: &Graph) -> BTreeSet<TensorId> {
    let mut moved = BTreeSet::new();
    for operation in graph.operations() {
        let all = operation.inputs.iter().all(|input| moved.contains(input));
        if all && moves(graph, &operation) {
            moved.extend(&operation.outputs);
        }
    }
    moved
}

/// Whether an operation moves its inputs, or makes of them what is not rounded.
fn moves(graph: &Graph, operation: &OperationView) -> bool {
    match operation.kind {
        Kind::Input(_) | Kind::Fill(_) | Kind::Constant(_) | Kind::Read(_) | Kind::Identity => true,
        Kind::Loop(_) | Kind::Param | Kind::Changed(_) | Kind::Update(_) => false,
        Kind::Other => {
            let types = |ids: &[_]| ids.iter().map(|&t| graph.type_of(t)).collect::<Vec<_>>();
            let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
            let rule = operation.op.split(Signature { inputs: &inputs, outputs: &outputs });
            let moves = rule.linearity() == Linearity::Moves && !rule.linear_sets().is_empty();
            moves || outputs.iter().all(|ty| !ty.dtype.is_float()) || is_of_terms(&inputs, &outputs)
        }
    }
}

/// Whether it is the sum of what a trial's inputs owe: such terms add up without rounding.
fn is_of_terms(inputs: &[TensorType], outputs: &[TensorType]) -> bool {
    let owes = |types: &[TensorType]| types.iter().any(|ty| ty.shape.contains(OWED.into()));
    owes(inputs) && !owes(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    #[test]
    fn what_is_computed_with_is_not_moved() {
        let g = crate::graph();
        let (p, q) = (dim("p", 4), dim("q", 6));
        let x = g.input("x", [p, q], BF16);
        let y = x.greater(0.0).select(x.transpose([q, p]), g.fill(1.0, [q, p], BF16));
        let moved = moved(&g);
        assert!(moved.contains(&y.id()));
        let computed = [(x + x).id(), (y * 2.0).slice(q.resized(2), 0).id()];
        let moved = super::moved(&g);
        assert!(computed.iter().all(|id| !moved.contains(id)));
    }
}
