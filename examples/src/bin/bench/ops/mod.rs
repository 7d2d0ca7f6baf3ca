//! `ops`: single ops on shapes of models that people train, as `examples/bench/ops.py` measures PyTorch's.

mod elementwise;
mod layers;
mod models;
mod moves;
mod steps;
mod table;
mod windows;
mod words;

use super::lines::Lines;
use examples::backend::BackendFlags;
use mesh_core::lower::Target;
use mesh_ops::prelude::*;
use mesh_ops::random::{random_integer, random_normal, random_uniform};
use std::error::Error;
use std::time::Instant;
use table::{Case, Kind};

/// Which ops, for how long.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Words that the ops' names contain; all ops by default.
    words: Vec<String>,

    /// Processors that share the batch, or the dim that the table names.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,

    /// How long to measure each.
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,

    /// Show the steps that each op is lowered to, with the microseconds of the fastest call.
    #[arg(long)]
    steps: bool,

    /// What runs them.
    #[command(flatten)]
    backend: BackendFlags,
}

/// What an update takes of a gradient.
const RATE: f64 = 1e-6;

/// The fewest calls that are timed.
const LEAST: usize = 5;

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    for case in table::cases()? {
        let wanted = |word: &String| case.name.contains(word.as_str());
        if !flags.words.is_empty() && !flags.words.iter().any(wanted) {
            continue;
        }
        for &threads in &flags.threads {
            let lines = Lines::new(format!("op_{}", case.name), format!("t{threads}"));
            lines.line("forward_us", measure(&case, threads, flags, false)? * 1e6)?;
            if case.is_trained() {
                lines.line("train_us", measure(&case, threads, flags, true)? * 1e6)?;
            }
        }
    }
    Ok(())
}

/// What an op makes of its inputs; the first is what gradients are of.
fn made<'g>(name: &str, x: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
    let one = elementwise::made(name, x).or_else(|| windows::made(name, x));
    let one = one.or_else(|| layers::made(name, x)).or_else(|| words::made(name, x));
    let one = one.or_else(|| models::made(name, x)).map(|y| vec![y]);
    one.or_else(|| moves::made(name, x))
}

/// Seconds of the fastest call: of the op alone, or with its gradients and an update of all that is trained.
fn measure(
    case: &Case,
    threads: usize,
    flags: &Flags,
    trains: bool,
) -> Result<f64, Box<dyn Error>> {
    let graph = mesh_ops::graph();
    let mut inputs = Vec::new();
    let mut filled = Vec::new();
    for (i, (kind, shape)) in case.inputs.iter().enumerate() {
        let name = format!("x{i}");
        let (dims, zeros) = (shape.clone(), Initializer::ZEROS);
        let variable = match kind {
            Kind::Normal(true) | Kind::Uniform(true) => graph.variable(&name, dims, F32, zeros),
            Kind::Normal(false) | Kind::Uniform(false) => graph.state(&name, dims, F32, zeros),
            Kind::Below(_) => graph.state(&name, dims, I32, zeros),
            Kind::Truth => graph.state(&name, dims, Bool, zeros),
        };
        let dims = shape.clone();
        filled.push(variable.assign(match kind {
            Kind::Normal(_) => random_normal(&graph, dims, 0.0, 1.0, F32),
            Kind::Uniform(_) => random_uniform(&graph, dims, 0.1, 1.0, F32),
            Kind::Below(count) => random_integer(&graph, dims, 0, *count),
            Kind::Truth => random_uniform(&graph, dims, 0.0, 1.0, F32).greater(0.5),
        }));
        inputs.push(variable.value());
    }
    let fill = graph.function("fill", [], [], filled);
    let ys = made(&case.name, &inputs).ok_or_else(|| format!("there is no op {}", case.name))?;
    let updates: Vec<_> = if trains {
        let y = ys[0];
        let dy = graph.state("dy", y.shape(), y.dtype(), Initializer::Constant(1e-3)).value();
        let variables = graph.trainable_variables();
        let values: Vec<_> = variables.iter().map(|variable| variable.value()).collect();
        let gradients = graph.gradients(&[y], &values, Some(&[dy]));
        let pairs = variables.iter().zip(gradients);
        pairs.filter_map(|(variable, dx)| Some(variable.assign_sub(dx? * RATE))).collect()
    } else {
        let kept = |(i, y): (usize, Tensor<'_>)| {
            let name = format!("y{i}");
            graph.state(&name, y.shape(), y.dtype(), Initializer::ZEROS)
        };
        let kept: Vec<_> = ys.iter().copied().enumerate().map(kept).collect();
        kept.iter().zip(&ys).map(|(kept, y)| kept.assign(*y)).collect()
    };
    let step = graph.function("step", [], [graph.scalar(0.0, F32)], updates);
    let mesh = Mesh::new([("all", threads)])?;
    let module = graph.lower(&mesh, &case.layout)?;
    let mut session = flags.backend.session(&module, 0, Target::host())?;
    session.call_into(&fill, [], &mut [])?;
    // What is fetched is waited for, whatever runs it.
    let mut fetched = [Array::from(0f32)];
    session.call_into(&step, [], &mut fetched)?;
    session.call_into(&step, [], &mut fetched)?;
    if flags.steps {
        session.record(true)?;
    }
    let (mut best, mut count, started) = (f64::INFINITY, 0, Instant::now());
    let mut recorded = None;
    while started.elapsed().as_secs_f64() < flags.seconds || count < LEAST {
        let begin = Instant::now();
        session.call_into(&step, [], &mut fetched)?;
        let seconds = begin.elapsed().as_secs_f64();
        if seconds < best {
            best = seconds;
            recorded = session.recorded(0).map(|recorded| recorded.times.steps.clone());
        }
        count += 1;
    }
    if let Some(recorded) = recorded {
        steps::print(&module, &recorded)?;
    }
    Ok(best)
}

/// The dim of this name, or one of size 1.
fn of(x: Tensor<'_>, name: &str) -> Dimension {
    x.shape().get(name.into()).unwrap_or(dim(name, 1))
}
