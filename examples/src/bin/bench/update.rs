//! `update`: Adam's update of one variable.

use super::lines::{Lines, median};
use super::models::adamw;
use super::triad::bandwidth;
use examples::backend::BackendFlags;
use mesh_core::lower::Target;
use mesh_ops::prelude::*;
use mesh_optimize::Optimizer;
use std::error::Error;
use std::time::Instant;

/// What is updated, by how many.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Elements of the variable.
    #[arg(long, value_delimiter = ',', default_values_t = [64 << 20, 512 << 10])]
    elements: Vec<usize>,

    /// Processors, over which the variable is split.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    processors: Vec<usize>,

    /// What runs it.
    #[command(flatten)]
    backend: BackendFlags,
}

/// An element's bytes: gradient, value and two moments are read; value and moments are written.
const BYTES_PER_ELEMENT: usize = 28;

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    for (&elements, &processors) in
        flags.elements.iter().flat_map(|e| flags.processors.iter().map(move |p| (e, p)))
    {
        let seconds = measure(elements, processors, &flags.backend)?;
        let reached = (BYTES_PER_ELEMENT * elements) as f64 / seconds;
        let limit = bandwidth(processors, 16 * elements / processors);
        let lines = Lines::new(format!("adam_{elements}"), format!("n{processors}"));
        lines.line("us_median", seconds * 1e6)?;
        lines.line("gb_per_s", reached / 1e9)?;
        lines.line("triad_gb_per_s", limit / 1e9)?;
        lines.line("of_triad", reached / limit)?;
    }
    Ok(())
}

fn measure(
    elements: usize,
    processors: usize,
    backend: &BackendFlags,
) -> Result<f64, Box<dyn Error>> {
    let graph = mesh_ops::graph();
    let x = dim("x", elements);
    let value = graph.variable("value", [x], F32, Initializer::ONES);
    let gradient = graph.state("gradient", [x], F32, Initializer::Constant(1e-3));
    let updates = adamw().apply_grads(&[(Some(gradient.value()), value)]);
    let update = graph.function("update", [], [graph.scalar(0.0, F32)], updates);
    let mesh = Mesh::new([("all", processors)])?;
    let module = graph.lower(&mesh, &"x:all".parse()?)?;
    let mut session = backend.session(&module, 0, Target::host())?;
    // What is fetched is waited for, whatever runs it.
    let mut fetched = [Array::from(0f32)];
    let mut step = || session.call_into(&update, [], &mut fetched);
    step()?;
    let (mut times, started) = (Vec::new(), Instant::now());
    while started.elapsed().as_secs_f64() < 1.0 || times.len() < 5 {
        let begin = Instant::now();
        step()?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(median(times))
}
