//! A residual network (arXiv 1512.03385) that reads digits, with metrics: `cargo run --release --bin resnet`.
//!
//! Batch norms see the whole batch, however it is split: `--mesh "a:2;b:2" --layout "batch:a;classes:b"`.

use clap::Parser;
use examples::data::Digits;
use examples::launch::exit;
use examples::running::{Losses, ShortFlags, say_metrics};
use mesh_ops::conv::Conv;
use mesh_ops::layers::{BatchNorm, BatchNormWeights, Dense, Parameters};
use mesh_ops::metrics::{Counted, accuracy, f1_score, top_k_accuracy};
use mesh_ops::prelude::*;
use mesh_optimize::training::{Evaluation, Every, Trainer};
use mesh_optimize::{AdamWeightDecay, Optimizer};
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 32;
const SIDE: usize = 28;

/// Trains a residual network on digits. Dims: batch, height, width, channel, classes.
#[derive(Parser, Debug)]
#[command(name = "resnet", version)]
struct Flags {
    /// Channels of the first of three blocks; each after it has twice as many.
    #[arg(long, default_value_t = 16)]
    channels: usize,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

/// A convolution with a batch norm behind it.
struct Normed<'g> {
    conv: Conv,
    from: Dimension,
    kernel: Tensor<'g>,
    norm: BatchNorm,
    weights: BatchNormWeights<'g>,
}

impl<'g> Normed<'g> {
    fn new(of: &Parameters<'g>, name: &str, sizes: [usize; 2], taps: usize, stride: usize) -> Self {
        let _scope = of.scope(name);
        let [from, onto] = sizes.map(|size| dim("channel", size));
        let fan = [dim("fh", taps), dim("fw", taps), from.renamed("channel_below")];
        let initializer = Initializer::variance_scaling(2.0, Fan::In, &fan, &[onto]);
        let norm = BatchNorm::keeping([onto]);
        Self {
            conv: Conv::over([("height", "fh"), ("width", "fw")]).strides([stride; 2]),
            from,
            kernel: of.variable("kernel", fan.into_iter().chain([onto]), initializer),
            weights: norm.weights(of, "norm"),
            norm,
        }
    }

    /// With the batch's statistics, whose updates are noted; or without a note with their averages.
    fn apply(&self, x: Tensor<'g>, note: Option<&mut Vec<Update<'g>>>) -> Tensor<'g> {
        let x = x.rename(self.from, "channel_below").conv(self.kernel, &self.conv);
        let Some(note) = note else { return self.norm.evaluate(x, &self.weights) };
        let (y, updates) = self.norm.train(x, &self.weights);
        note.extend(updates);
        y
    }
}

/// Two convolutions, and one of single pixels where what they are added to has another size.
type Block<'g> = (Normed<'g>, Normed<'g>, Option<Normed<'g>>);

struct Net<'g> {
    stem: Normed<'g>,
    blocks: Vec<Block<'g>>,
}

impl<'g> Net<'g> {
    fn new(of: &Parameters<'g>, flags: &Flags) -> Self {
        let stem = Normed::new(of, "stem", [1, flags.channels], 3, 1);
        let (mut from, mut blocks) = (flags.channels, Vec::new());
        for stage in 0..3 {
            let _scope = of.scope(&format!("block{stage}"));
            let onto = flags.channels << stage;
            let stride = if from == onto { 1 } else { 2 };
            let first = Normed::new(of, "first", [from, onto], 3, stride);
            let second = Normed::new(of, "second", [onto, onto], 3, 1);
            let beside = || Normed::new(of, "beside", [from, onto], 1, stride);
            blocks.push((first, second, (from != onto).then(beside)));
            from = onto;
        }
        Self { stem, blocks }
    }

    /// One number for each channel: the mean over the image.
    fn features(&self, image: Tensor<'g>, mut note: Option<&mut Vec<Update<'g>>>) -> Tensor<'g> {
        let mut x = self.stem.apply(image, note.as_deref_mut()).relu();
        for (first, second, beside) in &self.blocks {
            let y = first.apply(x, note.as_deref_mut()).relu();
            let y = second.apply(y, note.as_deref_mut());
            let same = beside.as_ref().map_or(x, |conv| conv.apply(x, note.as_deref_mut()));
            x = (same + y).relu();
        }
        x.mean_over([x.dim("height"), x.dim("width")].into_iter().flatten())
    }
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let (batch, classes) = (dim("batch", BATCH), dim("classes", 10));
    let sides = [dim("height", SIDE), dim("width", SIDE), dim("channel", 1)];
    let image = g.input("image", [batch].into_iter().chain(sides), F32);
    let (label, weight) = (g.input("label", [batch], I32), g.input("weight", [batch], F32));
    let of = Parameters::new(&g, F32);
    let (net, channel) = (Net::new(&of, flags), dim("channel", flags.channels << 2));
    let output = Dense::onto([classes]).over([channel]);
    let of_output = output.weights(&of, "output");
    let logits = |features| output.apply_with(features, &of_output);

    let mut updates = Vec::new();
    let trained = logits(net.features(image, Some(&mut updates)));
    let loss = trained.softmax_cross_entropy(label, classes).mean();
    updates.extend(AdamWeightDecay::new(2e-3).minimize(loss));
    let train = g.function("train", [image, label], [loss], updates);

    let (logits, weights) = (logits(net.features(image, None)), Some(weight));
    let [found, there] = [logits.argmax(classes), label].map(|x| x.one_hot(classes, Bool));
    let metrics = [
        ("accuracy", accuracy(logits, label, classes, weights)),
        ("top3", top_k_accuracy(logits, label, classes, 3, weights)),
        ("f1", f1_score(&Counted { found, there, kept: &[classes], weights })),
    ];
    let evaluation = Evaluation::declare(&g, "evaluate", &[image, label, weight], &metrics);

    let mut session = flags.short.session(&g, BATCH)?;
    let digits = Digits::generate(flags.short.seed, 8_000, 256);
    let batches = digits.train.batches(&[SIDE, SIDE, 1], BATCH, flags.short.seed)?;
    let unseen = digits.test.weighted_batches(&[SIDE, SIDE, 1], BATCH)?;
    let outcome = Trainer::new(&mut session, train.name(), batches)
        .steps(flags.short.steps(200))
        .evaluate(Every::Epochs(1), |session, _| evaluation.run(session, &unseen))
        .quiet()
        .watch(Losses::default())
        .run()?;
    say_metrics("unseen digits", &outcome);
    Ok(())
}
