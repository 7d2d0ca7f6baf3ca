//! Trains a digit classifier on any mesh: `cargo run --release --bin mnist -- --help`.

mod flags;
mod train;

use clap::Parser;
use examples::backend::BackendFlags;
use examples::data::Digits;
use examples::launch::{LaunchError, draw, exit, lower_with, named, on_mesh, parameters, parse};
use examples::models::mnist as model;
use examples::optimizer::Training;
use examples::planning::found_or_given;
use examples::ranks::{check_cluster, whereabouts};
use examples::report::{print, say};
use examples::running::{About, Compared, Detail, word};
use flags::Flags;
use mesh_core::graph::Graph;
use mesh_core::lower::{Module, Options};
use mesh_core::names::Layout;
use mesh_core::session::Session;
use mesh_optimize::{Distribution, Strategy, StrategyError};
use std::error::Error;
use std::process::ExitCode;

/// The numbers of generated training and test examples if no data are given.
const GENERATED: (usize, usize) = (12_000, 2_000);

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    flags.check()?;
    let distribution = match &flags.strategy {
        None => None,
        Some(text) => Some(distribution(text)?),
    };
    let graph = mesh_ops::graph();
    let training = match &flags.config {
        _ if flags.run.compares() => Training::to_compare(),
        Some(path) => Training::by_file(path, flags.batch)?,
        None => Training::by_flags(flags.optimizer, flags.lr.map(Into::into), flags.weight_decay)?,
    };
    let chosen = distribution.as_ref().map(|found| found.cross_device_ops);
    let all_reduce = flags.cross_device_ops.or(chosen).unwrap_or_default();
    let options = Options { all_reduce, probe: flags.run.probes(), ..Options::default() };
    let staleness = distribution.as_ref().map_or(0, |found| found.staleness);
    let training = training.delayed(staleness);
    let functions = model::build(&graph, &flags.sizes(), &training);
    let asked = (flags.mesh.as_deref(), flags.layout.as_deref());
    let build =
        |graph: &Graph| model::build(graph, &flags.sizes(), &training).train.name().to_owned();
    let (mesh, layout) = match &distribution {
        Some(found) => (found.mesh.clone(), found.layout.clone()),
        None => found_or_given(build, asked, flags.batch, flags.run.machine())?,
    };
    if let Some(path) = &flags.dot {
        return Ok(draw(&graph, path)?);
    }
    let module = lower_with(&graph, &mesh, &layout, &options, flags.strict)?;
    let evaluation = match &flags.eval_layout {
        None => None,
        Some(text) => {
            let layout = parse("eval-layout", text)?;
            let module = lower_with(&graph, &mesh, &layout, &options, flags.strict);
            Some(module.map_err(|e| format!("--eval-layout {text:?}: {e}"))?)
        }
    };
    if let Some(detail) = flags.explain {
        return explain(detail, &layout, &module, evaluation.as_ref(), flags);
    }
    let digits = match &flags.data {
        Some(directory) => Digits::load(directory)?,
        None => Digits::generate(flags.seed, GENERATED.0, GENERATED.1),
    };
    let examples = digits.train.len();
    if flags.batch > examples {
        let batch = flags.batch;
        return Err(format!("--batch {batch}: there are {examples} training examples").into());
    }
    if flags.run.compares() {
        let (function, seed) = (functions.train.name(), flags.seed);
        let (graph, mesh, layout, options) = (&graph, &mesh, &layout, &options);
        let compared = Compared { graph, function, mesh, layout, options, seed };
        return train::compare(flags, &compared, &digits);
    }
    if let Some(strategy) = &flags.strategy {
        let sums = options.all_reduce;
        say(&format!(
            "strategy {strategy} is --mesh \"{mesh}\" --layout \"{layout}\" --cross-device-ops {sums}"
        ));
    }
    say(&format!(
        "{}  layout {}  {} parameters  {examples} training and {} test examples",
        on_mesh(&mesh),
        named(&layout),
        parameters(&module),
        digits.test.len(),
    ));
    let start = |module: &Module, backend: &BackendFlags| match &distribution {
        Some(found) if backend.is_threads() => {
            let threads = found.threads().target(flags.run.target());
            Ok(Session::threads_with(module, flags.seed, &threads)?)
        }
        _ => backend.session(module, flags.seed, flags.run.target()),
    };
    let mut session = start(&module, &flags.run.backend)?;
    flags.run.prepare(&mut session)?;
    let beside = flags.run.backend.beside();
    let evaluator = evaluation.as_ref().map(|module| start(module, &beside)).transpose()?;
    let mut contents = training.settings().to_vec();
    if flags.run.keeps() && flags.data.is_some() {
        contents.push(("examples".to_owned(), digits.contents()?));
    }
    let about = About {
        title: &format!("mnist: {}, {}", word(flags.model), word(flags.optimizer)),
        module: &module,
        layout: &layout,
        function: functions.train.name(),
        metrics: &["loss", "lr"],
        contents: &contents,
    };
    train::train(flags, &functions, &mut session, evaluator, &digits, &about)
}

/// The mesh and layout of a strategy.
fn distribution(text: &str) -> Result<Distribution, LaunchError> {
    let refused = |error: StrategyError| LaunchError::Flag {
        flag: "strategy",
        text: text.to_owned(),
        message: error.to_string(),
    };
    let strategy: Strategy = parse("strategy", text)?;
    check_cluster(&strategy)?;
    strategy.distribution(model::BATCH).map_err(refused)
}

/// Prints the work of each processor, and that of evaluation if it has another layout.
fn explain(
    detail: Detail,
    layout: &Layout,
    module: &Module,
    evaluation: Option<&Module>,
    flags: &Flags,
) -> Result<(), Box<dyn Error>> {
    let mut training = flags.run.explain(module)?;
    let mut text = format!("{}layout {}\n", whereabouts(module.mesh())?, named(layout));
    if let (Some(evaluation), Some(layout)) = (evaluation, &flags.eval_layout) {
        training.functions.retain(|function| function.name != model::EVALUATE);
        let mut evaluated = flags.run.explain(evaluation)?;
        evaluated.functions.retain(|function| function.name == model::EVALUATE);
        let (training, evaluated) =
            (detail.text(module, &training), detail.text(evaluation, &evaluated));
        text += &format!("{training}\nevaluation layout {layout}\n{evaluated}");
    } else {
        text += &detail.text(module, &training);
    }
    if let Some(topology) = &flags.topology {
        text += &flags.run.backend.compiled_for(module, topology)?;
    }
    Ok(print(text.trim_end())?)
}
