//! Trains a digit classifier on any mesh: `cargo run --release --bin mnist -- --help`.

mod flags;
mod model;
mod train;

use clap::Parser;
use examples::data::Digits;
use examples::launch::{lower, mesh_and_layout, parse};
use flags::Flags;
use mesh_optimize::{Adafactor, AdamWeightDecay, Optimizer, Sgd};
use std::error::Error;
use std::process::ExitCode;

/// Generated examples when no data is given.
const GENERATED: (usize, usize) = (12_000, 2_000);

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let (mesh, layout) =
        mesh_and_layout(flags.mesh.as_deref(), flags.layout.as_deref(), flags.batch)?;
    let graph = mesh_ops::graph();
    let functions = model::build(&graph, flags.model, flags.batch, &*optimizer(flags)?);
    if let Some(path) = &flags.dot {
        std::fs::write(path, graph.dot()).map_err(|e| format!("--dot {}: {e}", path.display()))?;
        return Ok(());
    }
    let module = lower(&graph, &mesh, &layout, flags.strict)?;
    let evaluation = match &flags.eval_layout {
        None => None,
        Some(text) => {
            let layout = parse("eval-layout", text)?;
            Some(lower(&graph, &mesh, &layout, flags.strict)?)
        }
    };
    if flags.explain {
        train::print(&module.explain().to_string());
        return Ok(());
    }
    let digits = match &flags.data {
        Some(directory) => Digits::load(directory)?,
        None => Digits::generate(flags.seed, GENERATED.0, GENERATED.1),
    };
    let layout_text = layout.to_string();
    train::print(&format!(
        "mesh {mesh}  layout {}  {} parameters  {} training and {} test examples",
        if layout_text.is_empty() { "(nothing split)" } else { &layout_text },
        train::parameters(&module),
        digits.train.len(),
        digits.test.len(),
    ));
    train::train(flags, &functions, &module, evaluation.as_ref(), &digits)
}

fn optimizer(flags: &Flags) -> Result<Box<dyn Optimizer>, String> {
    if flags.weight_decay != 0.0 && flags.optimizer != flags::Optimizer::Adam {
        return Err("--weight-decay is for --optimizer adam only".to_owned());
    }
    if flags.lr.is_some_and(|lr| !(lr > 0.0 && lr.is_finite())) {
        return Err("--lr must be a positive number".to_owned());
    }
    Ok(match flags.optimizer {
        flags::Optimizer::Sgd => Box::new(Sgd::new(flags.lr.unwrap_or(0.1))),
        flags::Optimizer::Adam => {
            let adam = AdamWeightDecay::new(flags.lr.unwrap_or(1e-3));
            Box::new(adam.weight_decay(flags.weight_decay))
        }
        flags::Optimizer::Adafactor => {
            Box::new(Adafactor { learning_rate: flags.lr, ..Adafactor::default() })
        }
    })
}
