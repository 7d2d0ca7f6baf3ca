//! Which functions a case calls. Every operation knows the place in the sources that asked for it, and
//! what stands there is the call.

use mesh_ops::prelude::*;
use mesh_ops::testing::Case;
use std::collections::BTreeSet;
use std::fs;
use std::panic::Location;
use std::path::Path;

/// The functions whose calls in a case made operations: `softmax`, and `Norm::apply` where the call is
/// written so; a method is called by its name alone. An operator is the op that it makes.
pub fn calls(case: &Case) -> BTreeSet<String> {
    let g = mesh_ops::graph();
    let input = |given: &mesh_ops::testing::Given| {
        g.input(&given.name, given.shape.parse::<Shape>().unwrap(), given.dtype)
    };
    let inputs: Vec<_> = case.inputs().iter().map(input).collect();
    let fed = g.operations().len();
    case.outputs(&g, &inputs);
    let made = g.operations().into_iter().skip(fed);
    made.map(|made| called(made.at.location).unwrap_or_else(|| made.op.name().to_owned())).collect()
}

/// The function that is called at a place in the sources of the workspace, if it is called by name.
fn called(at: &Location<'_>) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(at.file());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let line = text.lines().nth(at.line() as usize - 1)?;
    let call = line.get(at.column() as usize - 1..)?;
    let end = call.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))?;
    let (path, rest) = call.split_at(end);
    if !rest.starts_with('(') || path.is_empty() {
        return None;
    }
    let mut parts = path.rsplit("::");
    let name = parts.next()?;
    match parts.next().filter(|owner| owner.starts_with(char::is_uppercase)) {
        Some(owner) => Some(format!("{owner}::{name}")),
        None => Some(name.to_owned()),
    }
}
