//! A recurrent network that writes, byte by byte: `cargo run --release --bin char_rnn`.
//!
//! A gated recurrent unit (arXiv 1406.1078) runs along the text by `scan`: its body is compiled once, and its
//! gradient runs the positions backwards.

use clap::Parser;
use examples::Rng;
use examples::launch::exit;
use examples::report::say;
use examples::running::{Losses, ShortFlags};
use examples::text::Text;
use mesh_ops::layers::{Cell, CellState, Dense, Parameters, Recurrent, embed, embedding_weights};
use mesh_ops::prelude::*;
use mesh_optimize::training::Trainer;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::{Array1, arr0};
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 16;
const LENGTH: usize = 64;
/// Bytes are drawn by their logits times this.
const SHARPNESS: f64 = 1.4;

/// Trains a recurrent network on small tales and prints what it writes. Dims: batch, length, state,
/// gates, bytes.
#[derive(Parser, Debug)]
#[command(name = "char_rnn", version)]
struct Flags {
    /// Size of the state.
    #[arg(long, default_value_t = 128)]
    state: usize,

    /// Bytes to write at the end.
    #[arg(long, default_value_t = 300)]
    write: usize,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let (batch, length, bytes) = (dim("batch", BATCH), dim("length", LENGTH), dim("bytes", 256));
    let (model, state) = (dim("model", 64), dim("state", flags.state));
    let parameters = Parameters::new(&g, F32);
    let table = embedding_weights(&parameters, bytes, [model], "table");
    let unit = Recurrent::new(Cell::Gru, length, model, state);
    let of_unit = unit.weights(&parameters, "unit");
    let output = Dense::onto([bytes]).over([state]);
    let of_output = output.weights(&parameters, "output");

    // A training step: the state runs along the text.
    let text = g.input("bytes", [batch, length], I32);
    let following = g.input("following", [batch, length], I32);
    let (states, _) = unit.apply(embed(text, table, bytes), &of_unit, None, None);
    let logits = output.apply_with(states, &of_output);
    let loss = logits.softmax_cross_entropy(following, bytes).mean();
    let update = AdamWeightDecay::new(3e-3).minimize(loss);
    let train = g.function("train", [text, following], [loss], update);

    // One byte: from it and the state to the logits of the next byte and the next state.
    let (byte, before) = (g.input("byte", [], I32), g.input("state", [state], F32));
    let before_it = [CellState { hidden: before, memory: None }];
    let (after, _) = unit.step(embed(byte, table, bytes), &of_unit, &before_it);
    let next =
        g.function("next", [byte, before], [output.apply_with(after, &of_output), after], []);

    let mut session = flags.short.session(&g, BATCH)?;
    let tales = Text::tales();
    Trainer::new(&mut session, train.name(), tales.batches(BATCH, LENGTH, flags.short.seed)?)
        .steps(flags.short.steps(400))
        .quiet()
        .watch(Losses::default())
        .run()?;

    let mut rng = Rng::keyed(flags.short.seed, 0, 0);
    let (mut byte, mut state) = (b'\n', Array::from(Array1::<f32>::zeros(flags.state)));
    let mut written = Vec::new();
    for _ in 0..flags.write {
        let fed = arr0(i32::from(byte));
        let [logits, after] = session.call(&next, [fed.view().into(), state.view()])?;
        (byte, state) = (rng.byte(&logits, SHARPNESS), after);
        written.push(byte);
    }
    say(&format!("\n{}", String::from_utf8_lossy(&written)));
    Ok(())
}
