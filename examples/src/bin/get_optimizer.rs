//! From a configuration file to a training step on any mesh: `cargo run --release --bin get_optimizer
//! -- --help`.

use clap::Parser;
use examples::Rng;
use examples::launch::{exit, lower, mesh_and_layout, named, on_mesh, parameters};
use examples::ranks::session;
use examples::report::{Metrics, print};
use mesh_ops::prelude::*;
use mesh_optimize::{OptimizerConfig, get_optimizer};
use ndarray::Array2;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// The configuration without --config.
const BUILT_IN: &str = include_str!("../../optimizer.json");

/// Trains a small network as a configuration file says, and shows what is made of the file.
///
/// The network learns what another one, drawn by the seed, answers. Dims: batch, features, hidden,
/// answers.
#[derive(Parser, Debug)]
#[command(name = "get_optimizer", version)]
struct Flags {
    /// A JSON or TOML file: `opt_name`, `lr`, `lr_decay`, `warmup_steps`, `gradient_clipping`, ... By
    /// default examples/optimizer.json, as it was when this was built.
    #[arg(long)]
    config: Option<PathBuf>,

    /// Processors as a grid. By default `all:n`, n the largest divisor of the batch that is not above
    /// the number of cores.
    #[arg(long)]
    mesh: Option<String>,

    /// How dims are split over mesh axes. By default `batch:all` with the default mesh, else nothing is
    /// split.
    #[arg(long)]
    layout: Option<String>,

    /// Treat warnings about the layout as errors.
    #[arg(long)]
    strict: bool,

    /// Examples a step where the file has no `train_batch_size`.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,

    /// Steps of training.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,

    /// Determines initial values and examples.
    #[arg(long, default_value_t = 3)]
    seed: u64,

    /// Write one JSON line a step (`step`, `loss`, `lr`) to this file.
    #[arg(long)]
    metrics: Option<PathBuf>,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let config = match &flags.config {
        Some(path) => OptimizerConfig::load(path).map_err(|error| format!("--config {error}"))?,
        None => OptimizerConfig::from_json(BUILT_IN)?,
    };
    config.notes().iter().for_each(|note| eprintln!("note: {note}"));
    let batch = match config.train_batch_size() {
        Some(size) => usize::try_from(size)?,
        None => flags.batch as usize,
    };
    let (mesh, layout) = mesh_and_layout(flags.mesh.as_deref(), flags.layout.as_deref(), batch)?;

    let graph = mesh_ops::graph();
    let (batch, features) = (dim("batch", batch), dim("features", 16));
    let (hidden, answers) = (dim("hidden", 64), dim("answers", 4));
    let input = graph.input("input", [batch, features], F32);
    let wanted = graph.input("wanted", [batch, answers], F32);
    let answer = input.dense(hidden, "hidden").relu().dense(answers, "answers");
    let loss = (answer - wanted).square().mean();
    let (learning_rate, updates, _) = get_optimizer(&graph, loss, &config, None);
    let updated: Vec<_> = updates.iter().map(|update| format!("  {update:?}\n")).collect();
    let train = graph.function("train", [input, wanted], [loss, learning_rate], updates);
    let module = lower(&graph, &mesh, &layout, flags.strict)?;

    print(&format!(
        "{}  layout {}  {:?}  {} parameters\n\none step makes\n{}and sends\n{}",
        on_mesh(&mesh),
        named(&layout),
        config.name(),
        parameters(&module),
        updated.concat(),
        sent(&module),
    ))?;
    let mut metrics = Metrics::create(flags.metrics.as_deref())?;
    let teacher = teacher(flags.seed, features.size, answers.size);
    let mut session = session(&module, flags.seed)?;
    for step in 1..=flags.steps {
        let inputs = matrix(flags.seed, step, batch.size, features.size);
        let wanted = inputs.dot(&teacher).mapv(f32::tanh);
        let [loss, rate] = session.call(&train, [inputs.view().into(), wanted.view().into()])?;
        let [loss, rate] = [loss, rate].map(|array| array.item().unwrap_or(f64::NAN) as f32);
        metrics.line(&json!({ "step": step, "loss": loss, "lr": rate }))?;
        if step == 1 || step.is_multiple_of(10) || step == flags.steps {
            print(&format!("step {step}  learning_rate {rate:.6}  loss {loss:.4}"))?;
        }
        if !loss.is_finite() {
            return Err(format!("the loss is {loss} at step {step}; try a smaller lr").into());
        }
    }
    Ok(metrics.finish()?)
}

/// The collectives of one step, equal ones counted.
fn sent(module: &Module) -> String {
    let explain = module.explain();
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for (form, axes, _) in explain.functions.iter().flat_map(|f| f.collectives()) {
        *counted.entry(format!("{form}({axes})")).or_default() += 1;
    }
    let lines = counted.iter().map(|(name, count)| format!("  {count} {name}\n"));
    if counted.is_empty() { "  nothing\n".to_owned() } else { lines.collect() }
}

/// What the answers are computed with.
fn teacher(seed: u64, features: usize, answers: usize) -> Array2<f32> {
    matrix(seed, 0, features, answers)
}

/// Numbers around zero.
fn matrix(seed: u64, index: u64, rows: usize, cols: usize) -> Array2<f32> {
    const EXAMPLES: u64 = 0x6f70_7469;
    let mut rng = Rng::keyed(seed, EXAMPLES, index);
    Array2::from_shape_simple_fn((rows, cols), || rng.around_zero(1.0))
}
