//! The split rules of a graph's ops, as text for a committed table.

use mesh_core::graph::{Graph, Kind, OperationView, Signature};
use mesh_core::split::Role;

/// One line for each different op among the first `operations` of a graph: what may happen to each
/// of its dims, the reason of each *whole*, and how it is linear in which inputs.
///
/// ```
/// # use mesh_ops::prelude::*;
/// # let g = mesh_ops::graph();
/// g.input("x", [dim("p", 4), dim("q", 6)], F32).sum([dim("q", 6)]);
/// let roles = mesh_ops::testing::roles(&g, 2);
/// assert_eq!(roles, ["sum(f32[p:4, q:6]) -> f32[p:4]: p parallel, q reduced(sum), adds [[0]]"]);
/// ```
pub fn roles(graph: &Graph, operations: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for operation in graph.operations().into_iter().take(operations) {
        if matches!(operation.kind, Kind::Other) {
            let line = line(graph, &operation);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn line(graph: &Graph, operation: &OperationView) -> String {
    let types = |ids: &[_]| ids.iter().map(|&t| graph.type_of(t)).collect::<Vec<_>>();
    let (inputs, outputs) = (types(&operation.inputs), types(&operation.outputs));
    let rule = operation.op.split(Signature { inputs: &inputs, outputs: &outputs });
    let mut names: Vec<_> = Vec::new();
    for name in inputs.iter().chain(&outputs).flat_map(|t| t.shape.names()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let role = |name| match rule.role(name) {
        Role::Whole(reason) => format!("{name} whole ({reason})"),
        role => format!("{name} {role}"),
    };
    let text = |types: &[_]| {
        types.iter().map(|t: &mesh_core::graph::TensorType| t.to_string()).collect::<Vec<_>>()
    };
    let mut roles: Vec<_> = names.into_iter().map(role).collect();
    let linear = || format!("{} {:?}", rule.linearity(), rule.linear_sets());
    roles.extend((!rule.linear_sets().is_empty()).then(linear));
    format!(
        "{}({}) -> {}: {}",
        operation.op.name(),
        text(&inputs).join(", "),
        text(&outputs).join(", "),
        roles.join(", ")
    )
}
