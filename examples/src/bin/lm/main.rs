//! Trains a language model on any mesh: `cargo run --release --bin lm -- --help`.

mod flags;
mod model;
mod sample;
mod train;

use clap::Parser;
use examples::launch::{draw, exit, lower, mesh_and_layout, named, on_mesh, parameters};
use examples::ranks::session;
use examples::report::{Metrics, print};
use examples::text::Text;
use flags::Flags;
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
    let text = match (&flags.text, &flags.tokens) {
        (Some(file), _) => Text::load(file)?,
        (None, Some(file)) => Text::load_tokens(file, flags.vocab())?,
        (None, None) => Text::tales(),
    };
    text.check(flags.batch, flags.sequence)?;
    let mut metrics = Metrics::create(flags.metrics.as_deref())?;
    print(&format!(
        "{}  layout {}  {} parameters  {} training and {} held-out {}s of {}",
        on_mesh(&mesh),
        named(&layout),
        parameters(&module),
        text.train.len(),
        text.held_out.len(),
        text.unit(),
        text.name(),
    ))?;
    let mut session = session(&module, flags.seed)?;
    let trained = train::train(flags, &functions, &mut session, &text, &mut metrics);
    metrics.finish()?;
    trained?;
    if flags.sample > 0 { sample::sample(flags, &functions, &mut session, &text) } else { Ok(()) }
}
