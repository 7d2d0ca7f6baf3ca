//! Finds the mesh and layout of a model for a number of processors: `cargo run --release --bin plan -- --help`.

mod flags;
mod page;

use clap::Parser;
use examples::launch::{exit, parse};
use examples::models::{lm, mnist};
use examples::optimizer::Training;
use examples::report::print;
use flags::{Flags, Model, SearchFlags, Sized};
use mesh_core::graph::Graph;
use mesh_core::names::DType;
use mesh_core::passes::Machine;
use mesh_ops::attention::Exchange;
use mesh_ops::layers::attention::AttentionWay;
use mesh_optimize::search::{Choice, FindLayout, Search};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let graph = mesh_ops::graph();
    let options = match &flags.model {
        Model::Lm { search, .. } | Model::Mnist { search, .. } => search,
    };
    let function = build(&graph, &flags.model)?;
    let search = search(options, &function)?;
    if let Some(layout) = &options.layout {
        return price(&graph, &search, layout, options.json);
    }
    let found = graph.search(&search)?;
    if let Some(path) = &options.html {
        std::fs::write(path, page::page(&search, &found))
            .map_err(|error| format!("--html {}: {error}", path.display()))?;
    }
    let text = match options.json {
        true => found.json().to_string(),
        false => found.to_string(),
    };
    Ok(print(text.trim_end())?)
}

/// Builds a model's training step, whose function has this name.
fn build(graph: &Graph, model: &Model) -> Result<String, Box<dyn Error>> {
    match model {
        Model::Lm {
            depth,
            width,
            heads,
            hidden,
            vocab,
            sequence,
            unrolled,
            recompute,
            sized,
            ..
        } => {
            let Sized { batch, optimizer } = *sized;
            if *heads == 0 || !width.is_multiple_of(2 * heads) {
                return Err(format!(
                    "--heads {heads}: heads share the width {width}, an even number each"
                )
                .into());
            }
            let sizes = lm::Sizes {
                batch: batch.unwrap_or(8),
                sequence: *sequence,
                width: *width,
                heads: *heads,
                hidden: hidden.unwrap_or(4 * width),
                depth: *depth,
                vocab: *vocab,
                scan: !unrolled,
                recompute: *recompute,
                attention: AttentionWay::Auto,
                exchange: Exchange::Auto,
                pieces: None,
                dtype: DType::F32,
            };
            let method = optimizer.optimizer(&optimizer.usual_rate(), None, Vec::new())?;
            Ok(lm::build_training(graph, &sizes, &*method).name().to_owned())
        }
        Model::Mnist { model, hidden, filters, sized, .. } => {
            let Sized { batch, optimizer } = *sized;
            let sizes = mnist::Sizes {
                model: *model,
                batch: batch.unwrap_or(200),
                hidden: *hidden,
                filters: *filters,
                wide: DType::F32,
                activations: DType::F32,
            };
            let training = Training::by_flags(optimizer, None, None)?;
            Ok(mnist::build(graph, &sizes, &training).train.name().to_owned())
        }
    }
}

fn search(flags: &SearchFlags, function: &str) -> Result<Search, Box<dyn Error>> {
    let machine = flags.machine.clone().unwrap_or_else(Machine::host);
    let mut search = Search::new(function, flags.processors, machine);
    search.axes = flags.axes;
    search.mesh = flags.mesh.as_deref().map(|text| parse("mesh", text)).transpose()?;
    search.memory = flags.memory;
    search.state = !flags.no_state;
    search.single_dims = flags.single_dims;
    search.every = flags.every || flags.html.is_some();
    search.limit = flags.seconds.map(Duration::try_from_secs_f64).transpose()?;
    search.runners_up = flags.runners_up;
    Ok(search)
}

/// Prints what a given layout costs.
fn price(graph: &Graph, search: &Search, layout: &str, json: bool) -> Result<(), Box<dyn Error>> {
    let Some(mesh) = search.mesh.clone() else {
        return Err("--layout: a layout is for a mesh, which --mesh says".into());
    };
    let layout = parse("layout", layout)?;
    let price = graph.estimator(&search.function, &mesh, &search.machine)?.price(&layout)?;
    let choice = Choice { mesh, layout, price };
    Ok(print(&if json { choice.json().to_string() } else { choice.to_string() })?)
}
