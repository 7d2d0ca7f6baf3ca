//! From flags to a lowered module.

use crate::ranks::{hold_back, launched, speaks};
use crate::report::complain;
use mesh_core::graph::Report;
use mesh_core::lower::{Options, Warnings};
use mesh_ops::prelude::*;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Runs a program; an error is one readable message on standard error.
pub fn exit(run: impl FnOnce() -> Result<(), Box<dyn Error>>) -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output, such as `head`, has closed it.
        Err(error) if broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            hold_back();
            complain(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// What can go wrong before the first step.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A flag's value is wrong.
    #[error("--{flag} {text:?}: {message}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What was given.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// The graph, or the layout for it, has errors.
    #[error("{0}")]
    Lower(#[from] Report),
    /// There were warnings under `--strict`.
    #[error("under --strict warnings are errors: {0}")]
    Warnings(String),
    /// `TF_CONFIG` is wrong, or does not fit the ranks.
    #[error("{0}")]
    Cluster(String),
}

/// Prints as `Display` does.
impl fmt::Debug for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The default number of processors: as many as there are ranks; for a single process the largest
/// divisor of `batch` that is not above the number of cores.
pub fn default_processors(batch: usize) -> usize {
    if let Some(launched) = launched() {
        return launched.ranks;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (1..=cores.min(batch.max(1))).rev().find(|n| batch.is_multiple_of(*n)).unwrap_or(1)
}

/// The mesh and layout that flags ask for; without a mesh, `all:n` and `batch:all`.
pub fn mesh_and_layout(
    mesh: Option<&str>,
    layout: Option<&str>,
    batch: usize,
) -> Result<(Mesh, Layout), LaunchError> {
    let automatic = format!("all:{}", default_processors(batch));
    let layout = layout.unwrap_or(if mesh.is_none() { "batch:all" } else { "" });
    Ok((parse("mesh", mesh.unwrap_or(&automatic))?, parse("layout", layout)?))
}

/// Parses a flag's value; an error names the flag.
pub fn parse<T: std::str::FromStr<Err: fmt::Display>>(
    flag: &'static str,
    text: &str,
) -> Result<T, LaunchError> {
    text.parse().map_err(|error: T::Err| LaunchError::Flag {
        flag,
        text: text.to_owned(),
        message: error.to_string(),
    })
}

/// Lowers a graph; warnings go to standard error, or are errors if `strict`.
pub fn lower(
    graph: &Graph,
    mesh: &Mesh,
    layout: &Layout,
    strict: bool,
) -> Result<Module, LaunchError> {
    lower_with(graph, mesh, layout, &Options::default(), strict)
}

/// [`lower`] with options of speed.
pub fn lower_with(
    graph: &Graph,
    mesh: &Mesh,
    layout: &Layout,
    options: &Options,
    strict: bool,
) -> Result<Module, LaunchError> {
    let told = if strict || !speaks() { Warnings::Keep } else { Warnings::Report };
    let module = graph.lower_with(mesh, layout, &Options { warnings: told, ..options.clone() })?;
    if strict {
        let recorded = graph.warnings().into_iter().map(|issue| issue.to_string());
        let warnings = recorded.chain(module.warnings().iter().map(ToString::to_string));
        let warnings: Vec<_> = warnings.collect();
        if !warnings.is_empty() {
            return Err(LaunchError::Warnings(warnings.join("\n")));
        }
    }
    Ok(module)
}

/// Writes a graph in Graphviz' DOT language.
pub fn draw(graph: &Graph, path: &Path) -> Result<(), String> {
    std::fs::write(path, graph.dot()).map_err(|e| format!("--dot {}: {e}", path.display()))
}

/// The mesh as text for people.
pub fn on_mesh(mesh: &Mesh) -> String {
    if mesh.processors() == 1 { "one processor".to_owned() } else { format!("mesh {mesh}") }
}

/// The layout as text for people.
pub fn named(layout: &Layout) -> String {
    let text = layout.to_string();
    if text.is_empty() { "(nothing split)".to_owned() } else { text }
}

/// Number of trained values.
pub fn parameters(module: &Module) -> usize {
    module.variables().iter().filter(|v| v.trainable).map(|v| v.shape.size()).sum()
}
