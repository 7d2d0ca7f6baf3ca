//! `profile`: where the time of a training step goes.

mod table;

use super::lines::{Lines, median};
use super::setup::Flags;
use super::triad::bandwidth;
use mesh_core::lower::Target;
use mesh_core::names::Mesh;
use mesh_core::program::{Block, Cost, Form, Step, cost};
use mesh_core::session::{CallTimes, StepTimes};
use std::error::Error;
use std::time::Instant;

/// The number of calls before the measured ones.
const WARM_UP: usize = 3;
/// The fewest calls that are measured.
const LEAST: usize = 8;

/// One step of the program, or of a loop's body.
struct Line<'p> {
    block: &'p Block,
    step: &'p Step,
    cost: Cost,
    /// How many times it runs in a call.
    runs: u64,
    /// Milliseconds in each call. For a loop, without the time of its body.
    times: Vec<f64>,
    /// The median of `times`.
    ms: f64,
}

/// The times of a processor in the measured calls.
struct Profile<'p> {
    lines: Vec<Line<'p>>,
    /// Milliseconds of copying feeds and fetches.
    border: f64,
    /// Milliseconds from a call to its return.
    wall: f64,
    /// The fraction of the wall time that lies in steps, feeds and fetches.
    accounted: f64,
    /// Memory bandwidth in bytes per second.
    bandwidth: f64,
    /// The number of processors that compute at the same time.
    threads: usize,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let mut setup = flags.setup()?;
    let module = setup.module.clone();
    let executable = module.compile(&Target::host())?;
    let train = executable.functions.iter().find(|compiled| compiled.program.name == "train");
    let Some(compiled) = train else { return Err("nothing trains".into()) };
    let mut lines = Vec::new();
    collect(&compiled.program.block, module.mesh(), &mut lines);
    for number in 0..WARM_UP {
        setup.step(number)?;
    }
    setup.session.record(true)?;
    let (mut walls, mut borders) = (Vec::new(), Vec::new());
    let (mut inside, mut outside) = (0.0, 0.0);
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < flags.seconds || walls.len() < LEAST {
        let begin = Instant::now();
        setup.step(walls.len())?;
        let wall = begin.elapsed().as_secs_f64() * 1e3;
        let Some(recorded) = setup.session.recorded(0) else { return Err("no record".into()) };
        let CallTimes { feeds, fetches, steps, .. } = &recorded.times;
        let border = ms(feeds.nanoseconds() + fetches.nanoseconds());
        note(&mut lines.iter_mut(), steps);
        inside += border + steps.iter().map(|step| ms(step.nanoseconds)).sum::<f64>();
        outside += wall;
        walls.push(wall);
        borders.push(border);
    }
    drop(setup);
    lines.iter_mut().for_each(|line| line.ms = median(line.times.clone()));
    let processors = module.mesh().processors();
    let threads = processors.min(std::thread::available_parallelism().map_or(1, usize::from));
    let bytes = compiled.plan.arena_bytes + module.variable_bytes();
    let (wall, border) = (median(walls), median(borders));
    let bandwidth = bandwidth(threads, bytes);
    let accounted = inside / outside;
    Lines::new(flags.workload.to_string(), flags.name.as_str()).line("accounted", accounted)?;
    Profile { lines, border, wall, accounted, bandwidth, threads }.print()
}

fn ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// One line per step. The lines of a body come before that of its loop.
fn collect<'p>(block: &'p Block, mesh: &Mesh, lines: &mut Vec<Line<'p>>) {
    for step in &block.steps {
        // A loop's own work is what stands around its body.
        let cost = match &step.form {
            Form::Loop(form) => {
                collect(&form.body, mesh, lines);
                Cost::default()
            }
            _ => cost(block, step, mesh),
        };
        lines.push(Line { block, step, cost, runs: 0, times: Vec::new(), ms: 0.0 });
    }
}

/// Adds the times of a call to the lines, which are in the order of [`collect`].
fn note(lines: &mut std::slice::IterMut<'_, Line<'_>>, steps: &[StepTimes]) {
    for step in steps {
        note(lines, &step.body);
        let Some(line) = lines.next() else { return };
        let body: u64 = step.body.iter().map(|step| step.nanoseconds).sum();
        line.runs = step.runs;
        line.times.push(ms(step.nanoseconds.saturating_sub(body)));
    }
}
