//! `start`: lowering, starting, saving and restoring a session of many small variables.

use super::lines::{Lines, median};
use examples::backend::BackendFlags;
use mesh_core::lower::Target;
use mesh_core::session::checkpoint::{Checkpoint, Checkpoints, Restore, State};
use mesh_ops::prelude::*;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// How many variables of how many elements.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Numbers of variables.
    #[arg(long, value_delimiter = ',', default_values_t = [20, 200, 2000])]
    variables: Vec<usize>,

    /// The elements (f32) of each.
    #[arg(long, default_value_t = 80)]
    elements: usize,

    /// A folder for checkpoints, which is removed afterwards.
    #[arg(long, default_value = "bench-start")]
    folder: PathBuf,

    /// What runs it.
    #[command(flatten)]
    backend: BackendFlags,
}

/// How often everything is done.
const ROUNDS: usize = 9;

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    for &variables in &flags.variables {
        let lines = Lines::new(format!("start_{variables}x{}", flags.elements), "none");
        let mut rounds = [const { Vec::new() }; METRICS.len()];
        for _ in 0..ROUNDS {
            let seconds = measure(variables, flags)?;
            rounds.iter_mut().zip(seconds).for_each(|(rounds, seconds)| rounds.push(seconds));
        }
        for (metric, seconds) in METRICS.into_iter().zip(rounds) {
            lines.line(metric, median(seconds) * 1e3)?;
        }
    }
    Ok(fs::remove_dir_all(&flags.folder)?)
}

const METRICS: [&str; 4] = ["lower_ms", "start_ms", "save_ms", "restore_ms"];

/// The seconds of each of [`METRICS`].
fn measure(variables: usize, flags: &Flags) -> Result<[f64; METRICS.len()], Box<dyn Error>> {
    let g = mesh_ops::graph();
    let initial = Initializer::Uniform { low: -1.0, high: 1.0 };
    let sum_of = |i: usize| {
        let (name, x) = (format!("layer_{i}/kernel"), dim("x", flags.elements));
        g.variable(&name, [x], F32, initial).value().sum_all()
    };
    let sum = (1..variables).fold(sum_of(0), |sum, i| sum + sum_of(i));
    g.function("sum", [], [sum], []);
    let mut begun = Instant::now();
    let mut lap = || std::mem::replace(&mut begun, Instant::now()).elapsed().as_secs_f64();
    let module = g.lower(&Mesh::single(), &Layout::default())?;
    let lower = lap();
    let mut session = flags.backend.session(&module, 0, Target::host())?;
    let start = lap();
    let snapshot = session.snapshot()?;
    let path = Checkpoints::new(&flags.folder).save(1, &snapshot, &State::new())?;
    let save = lap();
    session.restore(&Checkpoint::open(path)?, &Restore::all())?;
    Ok([lower, start, save, lap()])
}
