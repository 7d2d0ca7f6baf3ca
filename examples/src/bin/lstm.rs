//! A recurrent network that reads digits row by row, both ways: `cargo run --release --bin lstm`.
//!
//! Digits lose some of their last rows, so that they differ in length. `--mesh "a:2;b:2" --layout
//! "batch:a;state:b"` splits examples over one axis and states over the other.

use clap::Parser;
use examples::data::Digits;
use examples::launch::exit;
use examples::running::{Losses, ShortFlags, say_metrics};
use mesh_ops::layers::{Cell, Parameters, Recurrent};
use mesh_ops::metrics::{accuracy, perplexity};
use mesh_ops::prelude::*;
use mesh_optimize::training::{Evaluation, Every, Trainer};
use mesh_optimize::{AdamWeightDecay, Optimizer};
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 32;
const SIDE: usize = 28;
/// So many rows at most are lost.
const LOST: usize = 7;

/// Trains a recurrent network on digits. Dims: batch, rows, cols, state, gates, directions, classes.
#[derive(Parser, Debug)]
#[command(name = "lstm", version)]
struct Flags {
    /// Layers, each of which reads both ways.
    #[arg(long, default_value_t = 1)]
    layers: usize,

    /// Size of the state.
    #[arg(long, default_value_t = 64)]
    state: usize,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let (batch, classes) = (dim("batch", BATCH), dim("classes", 10));
    let (rows, cols, state) = (dim("rows", SIDE), dim("cols", SIDE), dim("state", flags.state));
    let image = g.input("image", [batch, rows, cols], F32);
    let (label, weight) = (g.input("label", [batch], I32), g.input("weight", [batch], F32));

    // Examples take turns in length.
    let turn = mesh_ops::range(&g, batch, I32).modulo(LOST as f64 + 1.0);
    let lengths = SIDE as f64 - turn;
    let lstm = Recurrent::new(Cell::Lstm, rows, cols, state).layers(flags.layers).bidirectional();
    let weights = lstm.weights(&Parameters::new(&g, F32), "lstm");
    let (_, last) = lstm.apply(image, &weights, None, Some(lengths));
    // The last layer's states, when each direction has come to its end.
    let ends = [&last[last.len() - 2], &last[last.len() - 1]];
    let logits =
        ends[0].hidden.dense(classes, "forward") + ends[1].hidden.dense(classes, "backward");

    let losses = logits.softmax_cross_entropy(label, classes);
    let update = AdamWeightDecay::new(3e-3).minimize(losses.mean());
    let train = g.function("train", [image, label], [losses.mean()], update);
    let metrics = [
        ("accuracy", accuracy(logits, label, classes, Some(weight))),
        ("perplexity", perplexity(losses, Some(weight))),
    ];
    let evaluation = Evaluation::declare(&g, "evaluate", &[image, label, weight], &metrics);

    let mut session = flags.short.session(&g, BATCH)?;
    let digits = Digits::generate(flags.short.seed, 8_000, 256);
    let batches = digits.train.batches(&[SIDE, SIDE], BATCH, flags.short.seed)?;
    let unseen = digits.test.weighted_batches(&[SIDE, SIDE], BATCH)?;
    let outcome = Trainer::new(&mut session, train.name(), batches)
        .steps(flags.short.steps(400))
        .evaluate(Every::Epochs(1), |session, _| evaluation.run(session, &unseen))
        .quiet()
        .watch(Losses::default())
        .run()?;
    say_metrics("unseen digits", &outcome);
    Ok(())
}
