//! Meshes and layouts that are found: `--mesh auto:N --layout auto`.

use crate::launch::{LaunchError, mesh_and_layout, parse};
use crate::report::remark;
use mesh_core::graph::Graph;
use mesh_core::names::{Dimension, Layout, Mesh, Rules, Shape};
use mesh_core::passes::Machine;
use mesh_optimize::search::{FindLayout, MachineError, Search, read_machine};
use std::error::Error;

/// The word for what is to be found.
const AUTO: &str = "auto";

/// The machine of a file that a flag names.
pub fn of_file(path: &str) -> Result<Machine, MachineError> {
    read_machine(path.as_ref())
}

/// Into how many parts a layout cuts a dim in computations; 1 if the layout is none of the mesh, of which lowering
/// tells.
pub fn parts(mesh: &Mesh, layout: &Layout, dim: Dimension) -> usize {
    let (Ok(rules), Ok(shape)) = (Rules::bind(layout, mesh), Shape::new([dim])) else { return 1 };
    rules.compute(&shape).parts(mesh, dim.name)
}

/// The mesh and layout that flags ask for. `auto:N` and `auto` are found by a search for the fastest call of the
/// function that `build` makes and names, of which standard error says what was found; else as
/// [`mesh_and_layout`].
pub fn found_or_given(
    build: impl FnOnce(&Graph) -> String,
    flags: (Option<&str>, Option<&str>),
    batch: usize,
    machine: Machine,
) -> Result<(Mesh, Layout), Box<dyn Error>> {
    let (mesh, layout) = flags;
    let count = mesh.and_then(|text| text.strip_prefix(AUTO)?.strip_prefix(':'));
    if count.is_none() && layout != Some(AUTO) {
        return Ok(mesh_and_layout(mesh, layout, batch)?);
    }
    if layout.is_some_and(|text| text != AUTO) {
        let message = "a mesh that is found has a layout that is found: --layout auto".to_owned();
        let text = layout.unwrap_or_default().to_owned();
        return Err(LaunchError::Flag { flag: "layout", text, message }.into());
    }
    let graph = mesh_ops::graph();
    let mut search = Search::new(&build(&graph), 1, machine);
    match (count, mesh) {
        (Some(count), _) => search.processors = parse("mesh", count)?,
        (None, Some(text)) => search.mesh = Some(parse("mesh", text)?),
        (None, None) => search.mesh = Some(mesh_and_layout(None, None, batch)?.0),
    }
    let found = graph.search(&search)?;
    remark(&format!("{}", found.best));
    Ok((found.best.mesh, found.best.layout))
}
