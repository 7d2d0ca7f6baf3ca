//! A vision transformer (arXiv 2010.11929) that reads digits: `cargo run --release --bin vit`.
//!
//! `--mesh "rows:2;cols:2" --layout "batch:rows;heads:cols;hidden:cols"` splits examples over one axis,
//! heads and hidden values over the other.

use clap::Parser;
use examples::data::Digits;
use examples::launch::exit;
use examples::report::say;
use examples::running::{Losses, ShortFlags};
use mesh_ops::layers::attention::MultiHead;
use mesh_ops::layers::{
    Activation, Around, Dense, FeedForward, Norm, Parameters, TransformerLayer, layer_norm,
};
use mesh_ops::prelude::*;
use mesh_optimize::training::Trainer;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 64;
/// Patches along each side of an image, and pixels along each side of a patch.
const PATCHES: usize = 7;
const PIXELS: usize = 4;

/// Trains a vision transformer on digits. Dims: batch, patches, model, heads, kv, hidden, classes.
#[derive(Parser, Debug)]
#[command(name = "vit", version)]
struct Flags {
    /// Transformer layers.
    #[arg(long, default_value_t = 3)]
    depth: usize,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

/// The logits of images, `[batch, rows, pixel_rows, cols, pixel_cols]`.
fn logits(image: Tensor<'_>, classes: Dimension, depth: usize) -> Tensor<'_> {
    let (rows, cols) = (dim("rows", PATCHES), dim("cols", PATCHES));
    let (pixel_rows, pixel_cols) = (dim("pixel_rows", PIXELS), dim("pixel_cols", PIXELS));
    let (patches, model) = (dim("patches", PATCHES * PATCHES), dim("model", 48));
    let parameters = Parameters::like(image);

    // Every patch becomes a vector, to which a learned one for its place is added.
    let x = Dense::onto([model]).over([pixel_rows, pixel_cols]).apply(image, "patches");
    let x = x.merge_dims([rows, cols], "patches");
    let x = x + parameters.variable(
        "places",
        [patches, model],
        Initializer::TruncatedNormal { mean: 0.0, stddev: 0.02 },
    );

    let layer = TransformerLayer {
        norm: Norm::Layer,
        attention: MultiHead::new(model, dim("heads", 4), dim("kv", 12)),
        feed_forward: FeedForward::new(model, dim("hidden", 128)).activations([Activation::Gelu]),
    };
    let x = (0..depth).fold(x, |x, i| {
        let weights = layer.weights(&parameters, &format!("layer{i}"));
        layer.apply(x, patches, &weights, &Around::default())
    });
    layer_norm(x, model, "norm").mean_over([patches]).dense(classes, "logits")
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let (batch, classes) = (dim("batch", BATCH), dim("classes", 10));
    let sides = [PATCHES, PIXELS, PATCHES, PIXELS];
    let names = ["rows", "pixel_rows", "cols", "pixel_cols"];
    let image_dims = names.iter().zip(sides).map(|(name, size)| dim(name, size));
    let image = g.input("image", [batch].into_iter().chain(image_dims), F32);
    let label = g.input("label", [batch], I32);
    let weight = g.input("weight", [batch], F32);

    let logits = logits(image, classes, flags.depth);
    let loss = logits.softmax_cross_entropy(label, classes).mean();
    let update = AdamWeightDecay::new(1e-3).minimize(loss);
    let train = g.function("train", [image, label], [loss], update);
    let right = (logits.argmax(classes).equal(label).cast(F32) * weight).sum_all();
    let evaluate = g.function("evaluate", [image, label, weight], [right], []);

    let mut session = flags.short.session(&g, BATCH)?;
    let digits = Digits::generate(flags.short.seed, 8_000, 512);
    let batches = digits.train.batches(&sides, BATCH, flags.short.seed)?;
    Trainer::new(&mut session, train.name(), batches)
        .steps(flags.short.steps(400))
        .quiet()
        .watch(Losses::default())
        .run()?;

    let mut right = 0.0;
    for batch in &digits.test.weighted_batches(&sides, BATCH)? {
        let batch = batch?;
        let [count] = session.call(&evaluate, batch.feeds(["image", "label", "weight"])?)?;
        right += count.item().unwrap_or(0.0);
    }
    say(&format!("right on unseen digits: {:.3}", right / digits.test.len() as f64));
    Ok(())
}
