//! How long it takes to make a transformer's training step runnable: building it with gradient and
//! optimizer, lowering, passes, memory plan.
//!
//! `cargo bench -p tests --bench compile -- [layers] [mesh]`. The model is tiny, since sizes do not
//! matter here: vocabulary 512, width 128, 16 heads, 256 hidden, 16 sequences of 32, AdamW.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that prints a table")]

use mesh_ops::layers::attention::{AttentionOptions, MultiHead, additive_mask, causal};
use mesh_ops::layers::{
    Around, Dense, FeedForward, Norm, Parameters, TransformerLayer, embed, embedding_weights,
};
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use std::time::Instant;

/// Repetitions; the best counts.
const RUNS: usize = 5;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let only_layers = arguments.iter().find_map(|a| a.parse::<usize>().ok());
    let only_mesh = arguments.iter().find(|a| a.contains(':'));
    println!("best of {RUNS}; ms");
    for mesh in ["d:2;m:2", "d:8;m:8", "d:64;m:64"] {
        for layers in [6, 12, 24, 48, 100] {
            if only_layers.is_none_or(|only| only == layers)
                && only_mesh.is_none_or(|only| only == mesh)
            {
                row(&mesh.parse().unwrap(), layers);
            }
        }
    }
}

fn row(mesh: &Mesh, layers: usize) {
    let layout = "batch:d; heads:m; d_ff:m; vocab:m".parse().unwrap();
    let many = mesh.processors() > 64;
    let (mut best, mut steps) = ([f64::MAX; 3], 0);
    for _ in 0..RUNS {
        let started = Instant::now();
        let g = mesh_ops::graph();
        transformer(&g, layers, if many { 64 } else { 16 });
        let built = started.elapsed().as_secs_f64();
        let module = g.lower(mesh, &layout).unwrap();
        let total = started.elapsed().as_secs_f64();
        steps = module.functions[0].program.steps.len();
        for (best, seconds) in best.iter_mut().zip([built, total - built, total]) {
            *best = best.min(seconds * 1e3);
        }
    }
    let [build, lower, total] = best;
    println!(
        "{mesh:<12} {layers:>3} layers {steps:>6} steps  build {build:>8.1}  lower {lower:>8.1}  total {total:>8.1}  peak {}",
        peak()
    );
}

/// The most memory that the process has had, as the system says it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.unwrap_or("unknown").replace("VmHWM:", "").trim().to_owned()
}

/// `many`: sequences and heads.
fn transformer(g: &Graph, layers: usize, many: usize) {
    let (batch, length) = (dim("batch", many), dim("length", 32));
    let (width, vocab) = (dim("d_model", 128), dim("vocab", 512));
    let layer = TransformerLayer {
        norm: Norm::Rms,
        attention: MultiHead::new(width, dim("heads", many), dim("kv", 128 / many)),
        feed_forward: FeedForward::new(width, dim("d_ff", 256)),
    };
    let parameters = Parameters::new(g, F32);
    let bytes = g.input("bytes", [batch, length], I32);
    let following = g.input("following", [batch, length], I32);
    let mask = Some(additive_mask(causal(g, length), F32));
    let around =
        Around { attention: AttentionOptions { mask, ..Default::default() }, ..Default::default() };
    let table = embedding_weights(&parameters, vocab, [width], "table");
    let mut x = embed(bytes, table, vocab);
    for i in 0..layers {
        let weights = layer.weights(&parameters, &format!("layer{i}"));
        x = layer.apply(x, length, &weights, &around);
    }
    let x = Norm::Rms.apply(x, width, &Norm::Rms.weights(&parameters, width, "norm"));
    let logits = Dense::onto([vocab]).over([width]).without_bias().apply(x, "logits");
    let loss = logits.softmax_cross_entropy(following, vocab).mean();
    g.function("train", [bytes, following], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
}
