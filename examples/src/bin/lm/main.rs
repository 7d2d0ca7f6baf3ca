//! Trains a language model on any mesh: `cargo run --release --bin lm -- --help`.

mod flags;
mod sample;
mod train;

use clap::Parser;
use examples::launch::{draw, exit, lower_with, named, on_mesh, parameters};
use examples::models::lm as model;
use examples::planning::{found_or_given, parts};
use examples::ranks::whereabouts;
use examples::report::{print, say};
use examples::running::{About, Compared, word};
use examples::text::Text;
use flags::Flags;
use mesh_core::graph::Graph;
use mesh_core::lower::Options;
use mesh_core::names::dim;
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    flags.check()?;
    let optimizer = train::optimizer(flags)?;
    let asked = (flags.mesh.as_deref(), flags.layout.as_deref());
    // A search takes it that positions are dealt, as they are below: prices of attention count all blocks alike.
    let in_order =
        |graph: &Graph| model::build(graph, &flags.sizes(1), &*optimizer).train.name().to_owned();
    let (mesh, layout) = found_or_given(in_order, asked, flags.batch, flags.run.machine())?;
    let graph = mesh_ops::graph();
    let parts = parts(&mesh, &layout, dim("length", flags.sequence));
    let functions = model::build(&graph, &flags.sizes(parts), &*optimizer);
    if let Some(path) = &flags.dot {
        return Ok(draw(&graph, path)?);
    }
    let options = Options { probe: flags.run.probes(), ..Options::default() };
    let module = lower_with(&graph, &mesh, &layout, &options, flags.strict)?;
    if let Some(detail) = flags.explain {
        let (whereabouts, layout) = (whereabouts(&mesh)?, named(&layout));
        let explain = flags.run.explain(&module)?;
        let mut text = format!("{whereabouts}layout {layout}\n{}", detail.text(&module, &explain));
        if let Some(topology) = &flags.topology {
            text += &flags.run.backend.compiled_for(&module, topology)?;
        }
        return Ok(print(text.trim_end())?);
    }
    let text = match (&flags.text, &flags.tokens) {
        (Some(file), _) => Text::load(file)?,
        (None, Some(file)) => Text::load_tokens(file, flags.vocab())?,
        (None, None) => Text::tales(),
    };
    text.check(flags.batch, flags.sequence)?;
    if flags.run.compares() {
        let (function, seed) = (functions.train.name(), flags.seed);
        let (graph, mesh, layout, options) = (&graph, &mesh, &layout, &options);
        let compared = Compared { graph, function, mesh, layout, options, seed };
        return train::compare(flags, &compared, &text);
    }
    say(&format!(
        "{}  layout {}  {} parameters  {} training and {} held-out {}s of {}",
        on_mesh(&mesh),
        named(&layout),
        parameters(&module),
        text.train.len(),
        text.held_out.len(),
        text.unit(),
        text.name(),
    ));
    let mut session = flags.run.backend.session(&module, flags.seed, flags.run.target())?;
    flags.run.prepare(&mut session)?;
    let contents = match flags.run.keeps() {
        true => vec![("text".to_owned(), text.contents()?)],
        false => Vec::new(),
    };
    let about = About {
        title: &format!("lm: {} layers of {}, {}", flags.depth, flags.width, word(flags.optimizer)),
        module: &module,
        layout: &layout,
        function: functions.train.name(),
        metrics: &["loss"],
        contents: &contents,
    };
    let outcome = train::train(flags, &functions, &mut session, &text, &about)?;
    if flags.run.interrupted(&outcome) || flags.sample == 0 {
        return Ok(());
    }
    sample::sample(flags, &functions, &mut session, &text)
}
