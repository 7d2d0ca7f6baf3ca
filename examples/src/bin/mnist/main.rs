//! Trains a digit classifier on any mesh: `cargo run --release --bin mnist -- --help`.

mod flags;
mod model;
mod train;

use clap::Parser;
use examples::data::Digits;
use examples::launch::{lower, mesh_and_layout, parse};
use flags::Flags;
use mesh_core::lower::Module;
use mesh_core::names::Layout;
use mesh_optimize::{Adafactor, AdamWeightDecay, Optimizer, Sgd};
use std::error::Error;
use std::io;
use std::process::ExitCode;
use train::Metrics;

/// Generated examples when no data is given.
const GENERATED: (usize, usize) = (12_000, 2_000);

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output, as `head`, has seen enough.
        Err(error) if broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    flags.check()?;
    let (mesh, layout) =
        mesh_and_layout(flags.mesh.as_deref(), flags.layout.as_deref(), flags.batch)?;
    let graph = mesh_ops::graph();
    let functions = model::build(&graph, flags.model, flags.batch, &*optimizer(flags));
    if let Some(path) = &flags.dot {
        std::fs::write(path, graph.dot()).map_err(|e| format!("--dot {}: {e}", path.display()))?;
        return Ok(());
    }
    let module = lower(&graph, &mesh, &layout, flags.strict)?;
    let evaluation = match &flags.eval_layout {
        None => None,
        Some(text) => {
            let layout = parse("eval-layout", text)?;
            let module = lower(&graph, &mesh, &layout, flags.strict);
            Some(module.map_err(|e| format!("--eval-layout {text:?}: {e}"))?)
        }
    };
    if flags.explain {
        return Ok(explain(&layout, &module, evaluation.as_ref(), flags)?);
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
    let mut metrics = Metrics::create(flags.metrics.as_deref())?;
    train::print(&format!(
        "{}  layout {}  {} parameters  {examples} training and {} test examples",
        if mesh.processors() == 1 { "one processor".to_owned() } else { format!("mesh {mesh}") },
        named(&layout),
        train::parameters(&module),
        digits.test.len(),
    ))?;
    let trained =
        train::train(flags, &functions, &module, evaluation.as_ref(), &digits, &mut metrics);
    metrics.finish()?;
    trained
}

fn named(layout: &Layout) -> String {
    let text = layout.to_string();
    if text.is_empty() { "(nothing split)".to_owned() } else { text }
}

/// What each processor would do; evaluation under its own layout if it has one.
fn explain(
    layout: &Layout,
    module: &Module,
    evaluation: Option<&Module>,
    flags: &Flags,
) -> io::Result<()> {
    let mut training = module.explain();
    let mut text = format!("layout {}\n", named(layout));
    if let (Some(evaluation), Some(layout)) = (evaluation, &flags.eval_layout) {
        training.functions.retain(|function| function.name != model::EVALUATE);
        let mut evaluation = evaluation.explain();
        evaluation.functions.retain(|function| function.name == model::EVALUATE);
        text += &format!("{training}\nevaluation layout {layout}\n{evaluation}");
    } else {
        text += &training.to_string();
    }
    train::print(text.trim_end())
}

fn optimizer(flags: &Flags) -> Box<dyn Optimizer> {
    match flags.optimizer {
        flags::Optimizer::Sgd => Box::new(Sgd::new(flags.lr.unwrap_or(0.1))),
        flags::Optimizer::Adam => {
            let adam = AdamWeightDecay::new(flags.lr.unwrap_or(1e-3));
            Box::new(adam.weight_decay(flags.weight_decay))
        }
        flags::Optimizer::Adafactor => {
            Box::new(Adafactor { learning_rate: flags.lr, ..Adafactor::default() })
        }
    }
}
