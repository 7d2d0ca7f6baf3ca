//! From a configuration file to a training step on any mesh: `cargo run --release --bin get_optimizer
//! -- --help`.

use clap::Parser;
use examples::Rng;
use examples::launch::{exit, lower_with, mesh_and_layout, named, on_mesh, parameters};
use examples::optimizer::settings;
use examples::report::{Lines, remark, say};
use examples::running::{About, Compared, RunFlags};
use mesh_core::lower::{Options, Target};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Record};
use mesh_optimize::training::{Every, Progress, Trainer};
use mesh_optimize::{OptimizerConfig, get_optimizer};
use ndarray::Array2;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// The configuration without --config.
const BUILT_IN: &str = include_str!("../../optimizer.json");

/// The configuration with which layouts are compared; see `Training::to_compare`.
const COMPARED: &str = r#"{"opt_name": "momentum", "lr": 0.1}"#;

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

    #[command(flatten)]
    run: RunFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    flags.run.check()?;
    let keys = match &flags.config {
        Some(path) => OptimizerConfig::read(path).map_err(|error| format!("--config {error}"))?,
        None => serde_json::from_str(BUILT_IN)?,
    };
    let contents = settings(&keys);
    let config = OptimizerConfig::from_map(keys).map_err(|error| format!("--config {error}"))?;
    config.notes().iter().for_each(|note| remark(&format!("note: {note}")));
    let batch = match config.train_batch_size() {
        Some(size) => usize::try_from(size)?,
        None => flags.batch as usize,
    };
    let config = if flags.run.compares() { OptimizerConfig::from_json(COMPARED)? } else { config };
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
    let options = Options { probe: flags.run.probes(), ..Options::default() };
    let module = lower_with(&graph, &mesh, &layout, &options, flags.strict)?;

    say(&format!(
        "{}  layout {}  {}  {} parameters\n\none step makes\n{}and sends\n{}",
        on_mesh(&mesh),
        named(&layout),
        config.name(),
        parameters(&module),
        updated.concat(),
        sent(&module)?,
    ));
    let data = batches(flags.seed, [batch.size, features.size, answers.size]);
    if flags.run.compares() {
        let (function, seed) = (train.name(), flags.seed);
        let (graph, mesh, layout, options) = (&graph, &mesh, &layout, &options);
        let compared = Compared { graph, function, mesh, layout, options, seed };
        let first = data.iter().next().ok_or("there is no batch")??;
        let feeds: Vec<_> = first.arrays().map(|(name, array)| (name, array.view())).collect();
        return flags.run.compare(&compared, &feeds);
    }
    let mut session = flags.run.backend.session(&module, flags.seed, flags.run.target())?;
    flags.run.prepare(&mut session)?;
    let about = About {
        title: &format!("get_optimizer: {}", config.name()),
        module: &module,
        layout: &layout,
        function: train.name(),
        metrics: &["loss", "lr"],
        contents: &contents,
    };
    let progress = Progress::to(Lines).every(Every::Steps(10)).step_line(|step| {
        let [loss, rate] = ["loss", "lr"].map(|name| step.metrics.get(name).unwrap_or(f64::NAN));
        format!("step {}  learning_rate {rate:.6}  loss {loss:.4}", step.position.step)
    });
    let trainer = Trainer::new(&mut session, train.name(), data)
        .steps(flags.steps)
        .settings([("batch", batch.size.to_string())])
        .counting("examples", batch.size as f64)
        .progress(progress);
    let outcome = flags.run.watched(trainer, &about)?.run()?;
    flags.run.interrupted(&outcome);
    Ok(())
}

/// An endless data set: random inputs and the teacher's answers.
fn batches(seed: u64, [batch, features, answers]: [usize; 3]) -> Dataset {
    let teacher = matrix(seed, 0, features, answers);
    Dataset::from_function(u64::MAX, move |_, index| {
        let inputs = matrix(seed, index + 1, batch, features);
        let wanted = inputs.dot(&teacher).mapv(f32::tanh);
        let arrays = [("input", Array::from(inputs)), ("wanted", Array::from(wanted))];
        Record::new(arrays)
    })
}

/// The collectives of one step; equal ones are counted.
fn sent(module: &Module) -> Result<String, Box<dyn Error>> {
    let functions = module.compile(&Target::host())?.functions;
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for step in functions.iter().flat_map(|function| function.program.steps()) {
        if let Some(axes) = step.axes() {
            let collective = format!("{}({})", step.form.name(), module.mesh().list(axes));
            *counted.entry(collective).or_default() += 1;
        }
    }
    let lines = counted.iter().map(|(name, count)| format!("  {count} {name}\n"));
    Ok(if counted.is_empty() { "  nothing\n".to_owned() } else { lines.collect() })
}

/// Numbers around zero.
fn matrix(seed: u64, index: u64, rows: usize, cols: usize) -> Array2<f32> {
    const EXAMPLES: u64 = 0x6f70_7469;
    let mut rng = Rng::keyed(seed, EXAMPLES, index);
    Array2::from_shape_simple_fn((rows, cols), || rng.around_zero(1.0))
}
