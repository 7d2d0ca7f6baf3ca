//! Trains a language model on any mesh: `cargo run --release --bin lm -- --help`.

mod flags;
mod model;
mod sample;
mod train;

use clap::Parser;
use examples::launch::{draw, exit, lower, mesh_and_layout, named, on_mesh, parameters};
use examples::report::{Metrics, print};
use examples::text::Text;
use flags::Flags;
use mesh_ops::prelude::*;
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    flags.check()?;
    let (mesh, layout) =
        mesh_and_layout(flags.mesh.as_deref(), flags.layout.as_deref(), flags.batch)?;
    let graph = mesh_ops::graph();
    let optimizer = train::optimizer(flags);
    let functions = model::build(&graph, flags, &*optimizer);
    if let Some(path) = &flags.dot {
        return Ok(draw(&graph, path)?);
    }
    let module = lower(&graph, &mesh, &layout, flags.strict)?;
    if flags.explain {
        let text = format!("layout {}\n{}", named(&layout), module.explain());
        return Ok(print(text.trim_end())?);
    }
    let (text, name) = match &flags.text {
        Some(file) => (Text::load(file)?, file.display().to_string()),
        None => (Text::tales(), "the built-in text".to_owned()),
    };
    text.check(&name, flags.batch, flags.sequence)?;
    let mut metrics = Metrics::create(flags.metrics.as_deref())?;
    print(&format!(
        "{}  layout {}  {} parameters  {} training and {} held-out bytes of {name}",
        on_mesh(&mesh),
        named(&layout),
        parameters(&module),
        text.train.len(),
        text.held_out.len(),
    ))?;
    let mut session = Session::threads(&module, flags.seed)?;
    let trained = train::train(flags, &functions, &mut session, &text, &mut metrics);
    metrics.finish()?;
    trained?;
    if flags.sample > 0 { sample::sample(flags, &functions, &mut session) } else { Ok(()) }
}
