//! What the short examples share: where they run, for how long, and how they tell of it.

use crate::backend::BackendFlags;
use crate::launch::{lower, mesh_and_layout, named, on_mesh, parameters};
use crate::report::say;
use mesh_core::graph::Graph;
use mesh_core::lower::Target;
use mesh_core::session::Session;
use mesh_optimize::training::{BoxError, Outcome, Start, Step, Watcher};
use std::error::Error;

/// Where a model is trained, and for how long.
#[derive(clap::Args, Clone, Debug)]
pub struct ShortFlags {
    /// Processors as a grid. By default `all:n`, n the largest divisor of the batch that is not above
    /// the number of cores.
    #[arg(long)]
    mesh: Option<String>,

    /// How dims are split over mesh axes. By default `batch:all` with the default mesh, else nothing
    /// is split.
    #[arg(long)]
    layout: Option<String>,

    /// Treat warnings about the layout as errors.
    #[arg(long)]
    strict: bool,

    /// Steps of training.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,

    /// Determines initial values and examples.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    backend: BackendFlags,
}

impl ShortFlags {
    /// The steps asked for, or so many.
    pub fn steps(&self, otherwise: u64) -> u64 {
        self.steps.unwrap_or(otherwise)
    }

    /// A session of the graph's functions on the mesh and under the layout asked for, which are
    /// printed.
    pub fn session(&self, graph: &Graph, batch: usize) -> Result<Session, Box<dyn Error>> {
        let wanted = (self.mesh.as_deref(), self.layout.as_deref());
        let (mesh, layout) = mesh_and_layout(wanted.0, wanted.1, batch)?;
        let module = lower(graph, &mesh, &layout, self.strict)?;
        let (where_to, layout, count) = (on_mesh(&mesh), named(&layout), parameters(&module));
        say(&format!("{where_to}  layout {layout}  {count} parameters"));
        self.backend.session(&module, self.seed, Target::host())
    }
}

/// Prints the metrics of the last evaluation on one line, behind what they are of.
pub fn say_metrics(of: &str, outcome: &Outcome) {
    let metrics = outcome.evaluation.iter().flat_map(|metrics| metrics.iter());
    let told: Vec<_> = metrics.map(|(name, value)| format!("{name} {value:.3}")).collect();
    say(&format!("{of}: {}", told.join("  ")));
}

/// Prints the loss of about twenty steps, the first and the last among them.
#[derive(Debug, Default)]
pub struct Losses {
    last: u64,
}

impl Watcher for Losses {
    fn name(&self) -> &str {
        "losses"
    }

    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        self.last = run.steps.unwrap_or(u64::MAX);
        Ok(())
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let number = step.position.step;
        let shown = number.is_multiple_of((self.last / 20).max(1));
        if shown || number == 1 || number == self.last {
            let loss = step.metrics.iter().next().map_or(f64::NAN, |(_, loss)| loss);
            say(&format!("step {number}  loss {loss:.5}"));
        }
        Ok(())
    }
}
