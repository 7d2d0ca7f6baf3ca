//! A state-space language model that writes, byte by byte: `cargo run --release --bin mamba`.
//!
//! Mamba's blocks (arXiv 2312.00752) read the text by an associative scan; `--mesh "a:2;b:2" --layout
//! "batch:a;length:b"` splits the text itself. What they write comes from single steps of a state that does not grow.

use clap::Parser;
use examples::Rng;
use examples::launch::exit;
use examples::report::say;
use examples::running::{Losses, ShortFlags};
use examples::text::Text;
use mesh_ops::AssociativeScan;
use mesh_ops::layers::{Dense, Mamba, MambaState, Norm, Parameters, embed, embedding_weights};
use mesh_ops::prelude::*;
use mesh_optimize::training::Trainer;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::arr0;
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 16;
const LENGTH: usize = 64;
/// A scan of the text goes through so many blocks at once.
const BLOCKS: usize = 8;
/// Bytes are drawn by their logits times this.
const SHARPNESS: f64 = 1.4;

/// Trains a state-space model on small tales and prints what it writes. Dims: batch, length, model, inner, state,
/// bytes.
#[derive(Parser, Debug)]
#[command(name = "mamba", version)]
struct Flags {
    /// Blocks, one after the other.
    #[arg(long, default_value_t = 2)]
    depth: usize,

    /// Size of the model; twice as many channels are scanned.
    #[arg(long, default_value_t = 32)]
    model: usize,

    /// Numbers that each channel keeps.
    #[arg(long, default_value_t = 8)]
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
    let (model, inner) = (dim("model", flags.model), dim("inner", 2 * flags.model));
    let parameters = Parameters::new(&g, F32);
    let table = embedding_weights(&parameters, bytes, [model], "table");
    let block = Mamba::new(length, model, inner, dim("state", flags.state))
        .scan(AssociativeScan { blocks: Some(BLOCKS), ..AssociativeScan::default() });
    let blocks: Vec<_> = (0..flags.depth)
        .map(|number| {
            let norm = Norm::Rms.weights(&parameters, model, &format!("norm{number}"));
            (norm, block.weights(&parameters, &format!("block{number}")))
        })
        .collect();
    let norm = Norm::Rms.weights(&parameters, model, "norm");
    let output = Dense::onto([bytes]).over([model]);
    let of_output = output.weights(&parameters, "output");
    let logits = |x| output.apply_with(Norm::Rms.apply(x, model, &norm), &of_output);

    // A training step: all positions at once.
    let text = g.input("bytes", [batch, length], I32);
    let following = g.input("following", [batch, length], I32);
    let mut x = embed(text, table, bytes);
    for (norm, weights) in &blocks {
        x = x + block.apply(Norm::Rms.apply(x, model, norm), weights);
    }
    let loss = logits(x).softmax_cross_entropy(following, bytes).mean();
    let update = AdamWeightDecay::new(3e-3).minimize(loss);
    let train = g.function("train", [text, following], [loss], update);

    // One byte: from it and what the blocks keep to the logits of the next byte and what they keep then.
    let byte = g.input("byte", [], I32);
    let (mut x, mut updates) = (embed(byte, table, bytes), Vec::new());
    for (number, (norm, weights)) in blocks.iter().enumerate() {
        let zeros = block.begin(x);
        let kept = [("window", zeros.window), ("hidden", zeros.hidden)].map(|(name, zeros)| {
            g.state(&format!("block{number}/{name}"), zeros.shape(), F32, Initializer::ZEROS)
        });
        let before = MambaState { window: kept[0].value(), hidden: kept[1].value() };
        let (y, after) = block.step(Norm::Rms.apply(x, model, norm), weights, &before);
        updates.extend([kept[0].assign(after.window), kept[1].assign(after.hidden)]);
        x = x + y;
    }
    let next = g.function("next", [byte], [logits(x)], updates);

    let mut session = flags.short.session(&g, BATCH)?;
    let tales = Text::tales();
    Trainer::new(&mut session, train.name(), tales.batches(BATCH, LENGTH, flags.short.seed)?)
        .steps(flags.short.steps(400))
        .quiet()
        .watch(Losses::default())
        .run()?;

    let mut rng = Rng::keyed(flags.short.seed, 0, 0);
    let (mut byte, mut written) = (b'\n', Vec::new());
    for _ in 0..flags.write {
        let [logits] = session.call(&next, [arr0(i32::from(byte)).view().into()])?;
        byte = rng.byte(&logits, SHARPNESS);
        written.push(byte);
    }
    say(&format!("\n{}", String::from_utf8_lossy(&written)));
    Ok(())
}
