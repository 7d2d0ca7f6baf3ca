//! An encoder and a decoder (arXiv 1706.03762) that learn to sort: `cargo run --release --bin seq2seq`.
//!
//! The encoder reads letters in any order; the decoder writes them sorted, each after having looked at
//! those it has written and, by cross attention, at what the encoder has made of the letters.

use clap::Parser;
use examples::Rng;
use examples::launch::exit;
use examples::report::say;
use examples::running::{Losses, ShortFlags};
use mesh_ops::layers::attention::{AttentionOptions, MultiHead, causal};
use mesh_ops::layers::{
    Around, FeedForward, Norm, Parameters, TransformerLayer, embedding, layer_norm,
};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Record};
use mesh_optimize::training::Trainer;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::Array2;
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 32;
const LENGTH: usize = 10;
/// The letters, and one more token: the decoder's first.
const LETTERS: usize = 26;

/// Trains an encoder and a decoder to sort letters. Dims: batch, source, length, model, heads, kv,
/// hidden, tokens.
#[derive(Parser, Debug)]
#[command(name = "seq2seq", version)]
struct Flags {
    /// Layers of the encoder, and of the decoder.
    #[arg(long, default_value_t = 2)]
    depth: usize,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

/// The logits of each target token, given the letters and the tokens before it.
fn logits<'g>(letters: Tensor<'g>, before: Tensor<'g>, depth: usize) -> Tensor<'g> {
    let (source, length) = (dim("source", LENGTH), dim("length", LENGTH));
    let (tokens, model) = (dim("tokens", LETTERS + 1), dim("model", 48));
    let parameters = Parameters::new(letters.graph(), F32);
    let attention = MultiHead::new(model, dim("heads", 4), dim("kv", 12));
    let layer = TransformerLayer {
        norm: Norm::Layer,
        attention: attention.clone(),
        feed_forward: FeedForward::new(model, dim("hidden", 96)),
    };
    let placed = |x: Tensor<'g>, length: Dimension, name: &str| {
        x + parameters.variable(
            name,
            [length, model],
            Initializer::TruncatedNormal { mean: 0.0, stddev: 0.1 },
        )
    };

    let mut x = placed(embedding(letters, tokens, [model], "letters"), source, "source_places");
    for i in 0..depth {
        let weights = layer.weights(&parameters, &format!("encoder{i}"));
        x = layer.apply(x, source, &weights, &Around::default());
    }
    let seen = layer_norm(x, model, "seen");

    let mask = Some(causal(letters.graph(), length));
    let looking_back =
        Around { attention: AttentionOptions { mask, ..Default::default() }, ..Default::default() };
    let mut y = placed(embedding(before, tokens, [model], "before"), length, "places");
    for i in 0..depth {
        let across = attention.weights(&parameters, &format!("cross{i}"));
        let normed = layer_norm(y, model, &format!("cross_norm{i}"));
        y = y + attention.cross_attention(normed, seen, source, &across, &Default::default());
        let weights = layer.weights(&parameters, &format!("decoder{i}"));
        y = layer.apply(y, length, &weights, &looking_back);
    }
    layer_norm(y, model, "norm").dense(tokens, "logits")
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let (batch, tokens) = (dim("batch", BATCH), dim("tokens", LETTERS + 1));
    let letters = g.input("letters", [batch, dim("source", LENGTH)], I32);
    let [before, sorted] =
        ["before", "sorted"].map(|x| g.input(x, [batch, dim("length", LENGTH)], I32));
    let logits = logits(letters, before, flags.depth);
    let loss = logits.softmax_cross_entropy(sorted, tokens).mean();
    let update = AdamWeightDecay::new(1e-3).minimize(loss);
    let train = g.function("train", [letters, before, sorted], [loss], update);
    let predict = g.function("predict", [letters, before], [logits.argmax(tokens)], []);

    let mut session = flags.short.session(&g, BATCH)?;
    let seed = flags.short.seed;
    let batches = Dataset::from_function(u64::MAX, move |_, index| {
        let [letters, before, sorted] = words(seed, index + 1);
        let arrays = [("letters", letters), ("before", before), ("sorted", sorted)];
        Record::new(arrays.map(|(name, array)| (name, Array::from(array))))
    });
    Trainer::new(&mut session, train.name(), batches)
        .steps(flags.short.steps(600))
        .quiet()
        .watch(Losses::default())
        .run()?;

    // The decoder writes one token after the other; each is given to it for the next.
    let [letters, mut before, sorted] = words(seed, 0);
    let mut written = before.clone();
    for i in 0..LENGTH {
        let [found] = session.call(&predict, [(&letters).into(), (&before).into()])?;
        for (row, mut written) in written.rows_mut().into_iter().enumerate() {
            written[i] = found.to_f64()[[row, i]] as i32;
            if i + 1 < LENGTH {
                before[[row, i + 1]] = written[i];
            }
        }
    }
    let right = written.rows().into_iter().zip(sorted.rows()).filter(|(a, b)| a == b).count();
    let word = |x: &Array2<i32>| x.row(0).iter().map(|&c| char::from(b'a' + c as u8)).collect();
    let (first, last): (String, String) = (word(&letters), word(&written));
    say(&format!("{first} becomes {last}; {right} of {BATCH} unseen words are right"));
    Ok(())
}

/// Words of random letters, the same sorted, and those one place later, behind the first token.
fn words(seed: u64, index: u64) -> [Array2<i32>; 3] {
    let mut rng = Rng::keyed(seed, 0, index);
    let letters = Array2::from_shape_simple_fn((BATCH, LENGTH), || rng.below(LETTERS) as i32);
    let mut sorted = letters.clone();
    for mut row in sorted.rows_mut() {
        let mut word = row.to_vec();
        word.sort_unstable();
        row.iter_mut().zip(word).for_each(|(place, letter)| *place = letter);
    }
    let before =
        |(row, i): (usize, usize)| if i == 0 { LETTERS as i32 } else { sorted[[row, i - 1]] };
    let before = Array2::from_shape_fn((BATCH, LENGTH), before);
    [letters, before, sorted]
}
