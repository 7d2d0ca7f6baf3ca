//! `compile`: from building the graph to a program, for a deep and narrow transformer.

use super::lines::{Lines, peak_rss_mib};
use super::models::{LM, Loss, Transformer, adamw, lm};
use examples::backend::BackendFlags;
use mesh_core::lower::Target;
use mesh_ops::prelude::*;
use mesh_optimize::Optimizer;
use std::error::Error;
use std::time::Instant;

/// How deep, for how many processors.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Layers.
    #[arg(long, default_value_t = 24)]
    layers: usize,

    /// Processors: a power of two. Up to 8 share the heads, the rest the batch.
    #[arg(long, default_value_t = 4)]
    processors: usize,

    /// How often, in one process.
    #[arg(long, default_value_t = 1)]
    repeats: usize,

    /// One loop over the layers instead of all of them.
    #[arg(long)]
    scan: bool,

    /// What it is compiled for, besides.
    #[command(flatten)]
    backend: BackendFlags,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let &Flags { layers, processors, repeats, scan, .. } = flags;
    let what = if scan { "scan" } else { "graph" };
    let lines = Lines::new(format!("{what}_lm_L{layers}"), format!("mesh{processors}"));
    // The mesh is as square as those of the peers.
    let model = 1 << (processors.max(1).ilog2() / 2).min(3);
    let mesh = Mesh::new([("b", processors / model), ("m", model)])?;
    let layout: Layout = "batch:b;heads:m;d_ff:m;vocab:m".parse()?;
    // The batch must be divisible among the processors.
    let batch = 16.max(processors / model);
    let sizes = Transformer {
        batch,
        length: 32,
        d_model: 128,
        d_ff: 256,
        heads: 16,
        layers,
        vocab: 512,
        scan,
        ..LM
    };
    for _ in 0..repeats {
        let started = Instant::now();
        let graph = mesh_ops::graph();
        let Loss { inputs, loss } = lm(&graph, &sizes);
        let forward = started.elapsed().as_secs_f64();
        graph.function("train", inputs, [loss], adamw().minimize(loss));
        let built = started.elapsed().as_secs_f64();
        let module = graph.lower(&mesh, &layout)?;
        let lowered = started.elapsed().as_secs_f64();
        let executable = module.compile(&Target::host())?;
        let total = started.elapsed().as_secs_f64();
        let steps: usize = executable.functions.iter().map(|f| f.program.steps().len()).sum();
        lines.line("forward_s", forward)?;
        lines.line("grad_opt_s", built - forward)?;
        lines.line("lower_s", lowered - built)?;
        lines.line("compile_s", total - lowered)?;
        lines.line("total_s", total)?;
        lines.line("steps", steps as f64)?;
        let variables = {
            // The same variables and slots without a function: what a session takes besides compiling it.
            let graph = mesh_ops::graph();
            let Loss { loss, .. } = lm(&graph, &sizes);
            drop(adamw().minimize(loss));
            graph.lower(&mesh, &layout)?
        };
        for (metric, module) in [("variables_s", &variables), ("session_s", &module)] {
            let started = Instant::now();
            drop(flags.backend.session(module, 0, Target::host())?);
            lines.line(metric, started.elapsed().as_secs_f64())?;
        }
        lines.known("peak_rss_mib", peak_rss_mib())?;
    }
    Ok(())
}
