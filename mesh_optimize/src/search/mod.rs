//! Layouts found for a number of processors: the cheapest under a stated model of cost, with a certificate.
//!
//! `space` and `state` are what is searched, `alike` what of it is the same, `branch` the search, `found` what
//! comes of it, and `machine` reads files of machines.

mod alike;
mod branch;
mod found;
mod machine;
mod shapes;
mod space;
mod state;

pub use found::{Certificate, Choice, Found, Pruned, RuleWorth};
pub use machine::{MachineError, machine_text, read_machine};
pub use shapes::mesh_shapes;

use branch::Branch;
use mesh_core::graph::{Graph, Report};
use mesh_core::names::{Mesh, NameError};
use mesh_core::passes::Machine;
use std::time::{Duration, Instant};

/// How many layouts are priced for one that needs little memory, where nothing fits.
const TRIED: u64 = 300;

/// What is minimised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Objective {
    /// Seconds of a call; of equals the fewest bytes.
    #[default]
    Seconds,
    /// Bytes that a processor needs; of equals the fewest seconds.
    Bytes,
}

/// What is asked: the best mesh and layout of so many processors of a machine, for one function of a graph.
///
/// ```
/// use mesh_core::passes::Machine;
/// use mesh_ops::prelude::*;
/// use mesh_optimize::search::{FindLayout, Search};
///
/// let g = mesh_ops::graph();
/// let (batch, width) = (dim("batch", 4096), dim("width", 256));
/// let x = g.input("x", [batch, width], F32);
/// g.function("f", [x], [x.exp().mean()], []);
/// let found = g.search(&Search::new("f", 4, Machine::host()))?;
/// assert_eq!(found.best.layout.to_string(), "batch:a");
/// assert!(found.certificate.proven);
/// # Ok::<(), mesh_optimize::search::SearchError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// The function whose call is priced. All functions of the graph must be legal.
    pub function: String,
    /// How many processors there are.
    pub processors: usize,
    /// The most axes of the mesh.
    pub axes: usize,
    /// The mesh, if it is not to be chosen; then `processors` and `axes` do not count.
    pub mesh: Option<Mesh>,
    /// The machine.
    pub machine: Machine,
    /// Bytes that a processor may need; by default the machine's.
    pub memory: Option<u64>,
    /// What is minimised.
    pub objective: Objective,
    /// Whether `params/*` and `slots/*` rules are searched, too.
    pub state: bool,
    /// Whether such rules for single dims are searched as well: many times as many layouts.
    pub single_dims: bool,
    /// Whether every legal layout is priced, instead of those alone that may be the best.
    pub every: bool,
    /// How long to search; then the best so far is the answer, and is not proven to be the best.
    pub limit: Option<Duration>,
    /// How many layouts that were priced are kept besides the best.
    pub runners_up: usize,
}

impl Search {
    /// The fastest layout of a function on a mesh of up to two axes.
    pub fn new(function: &str, processors: usize, machine: Machine) -> Self {
        Self {
            function: function.to_owned(),
            processors,
            axes: 2,
            mesh: None,
            machine,
            memory: None,
            objective: Objective::Seconds,
            state: true,
            single_dims: false,
            every: false,
            limit: None,
            runners_up: 5,
        }
    }

    /// Bytes that a processor may need.
    pub fn capacity(&self) -> u64 {
        self.memory.unwrap_or(self.machine.capacity)
    }
}

/// Why no layout was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The graph has errors.
    #[error(transparent)]
    Graph(#[from] Report),
    /// There is no such mesh.
    #[error("no mesh of {processors} processors: {error}")]
    Mesh {
        /// How many were asked for.
        processors: usize,
        /// What is wrong.
        error: NameError,
    },
    /// So many processors are no product of so many sizes.
    #[error("no mesh of {processors} processors has at most {axes} axes")]
    NoMesh {
        /// How many processors were asked for.
        processors: usize,
        /// How many axes the mesh may have.
        axes: usize,
    },
    /// No legal layout needs so little memory.
    #[error(
        "no layout fits: a processor has {capacity} bytes, and every layout that was searched needs at least {floor}; \
         the smallest that was priced, {:?} on mesh {}, needs {}: {} of variables and {} of other values, so these \
         would have to shrink by {}, or the processors become more",
        least.layout.to_string(), least.mesh, least.price.bytes(), least.price.variable_bytes,
        least.price.value_bytes, (least.price.bytes() as u64).saturating_sub(*capacity)
    )]
    NothingFits {
        /// Bytes of a processor.
        capacity: u64,
        /// Bytes of which no layout that was searched needs less; more than a processor has.
        floor: u64,
        /// The layout that needs least memory, of a few hundred that promise to need little.
        least: Box<Choice>,
    },
    /// Time was up before a layout was found that fits, or none is legal.
    #[error("no layout was found{}", if *late { ": the time was up" } else { ": none is legal" })]
    Nothing {
        /// Whether time was up.
        late: bool,
    },
}

/// Finds layouts.
pub trait FindLayout {
    /// The best mesh and layout for a number of processors.
    ///
    /// # Errors
    /// A graph with errors, a mesh that cannot be, or no layout that fits.
    fn search(&self, search: &Search) -> Result<Found, SearchError>;
}

impl FindLayout for Graph {
    fn search(&self, search: &Search) -> Result<Found, SearchError> {
        let began = Instant::now();
        let meshes = match &search.mesh {
            Some(mesh) => vec![mesh.clone()],
            None => shapes::meshes(search)?,
        };
        let Some(mesh) = meshes.first() else {
            let &Search { processors, axes, .. } = search;
            return Err(SearchError::NoMesh { processors, axes });
        };
        let first = self.estimator(&search.function, mesh, &search.machine)?;
        let through = |search, most| Branch::through(search, began, &first, &meshes, most);
        let branch = through(search, u64::MAX);
        let Some(floor) = branch.none_below() else { return branch.found(&first) };
        let memory = Some(u64::MAX);
        let small = Search { objective: Objective::Bytes, memory, every: false, ..search.clone() };
        let least = Box::new(through(&small, TRIED).found(&first)?.best);
        Err(SearchError::NothingFits { capacity: search.capacity(), floor, least })
    }
}
