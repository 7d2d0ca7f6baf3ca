//! A 3-D U-Net (arXiv 1606.06650) that finds balls in noise: `cargo run --release --bin unet3d`.
//!
//! Volumes too large for one processor are split in space: under `--mesh space:4 --layout depth:space`
//! each holds some slices, and convolutions exchange the borders that their windows see.

use clap::Parser;
use examples::Rng;
use examples::launch::exit;
use examples::report::say;
use examples::running::{Losses, ShortFlags};
use mesh_ops::conv::Conv;
use mesh_ops::layers::{ConvLayer, group_norm, sigmoid_cross_entropy};
use mesh_ops::metrics::{Counted, f1_score};
use mesh_ops::pool::Pool;
use mesh_ops::prelude::*;
use mesh_ops::resize::Resize;
use mesh_optimize::dataset::{Dataset, Record};
use mesh_optimize::training::Trainer;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::{Array4, Axis};
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 2;
/// Voxels along each side.
const SIDE: usize = 16;

/// Trains a 3-D U-Net on balls in noise. Dims: batch, depth, height, width, channel.
#[derive(Parser, Debug)]
#[command(name = "unet3d", version)]
struct Flags {
    /// How often volumes are halved on the way down.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3))]
    levels: u32,

    /// Channels of the first level; each level below has twice as many.
    #[arg(long, default_value_t = 8)]
    channels: usize,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

/// Windows over all three dims.
fn windows() -> Conv {
    Conv::over([("depth", "tap_d"), ("height", "tap_h"), ("width", "tap_w")])
}

/// Two convolutions of 3 x 3 x 3, each behind a norm of two groups of channels.
fn block<'g>(x: Tensor<'g>, channels: usize, name: &str) -> Tensor<'g> {
    let _scope = x.graph().scope(name);
    let onto = dim("channel", channels);
    let layer = ConvLayer::onto(onto, &windows(), [3, 3, 3]);
    ["first", "second"].into_iter().fold(x, |x, name| {
        let x = layer.apply(x, name);
        let space = ["depth", "height", "width"].into_iter().filter_map(|name| x.dim(name));
        group_norm(x, onto, 2, space, &format!("{name}_norm")).relu()
    })
}

/// Twice as large: voxels between voxels are linear, then a convolution of single voxels chooses channels.
fn up(x: Tensor<'_>, onto: usize) -> Tensor<'_> {
    let doubled = ["depth", "height", "width"].into_iter().filter_map(|name| x.dim(name));
    let doubled = doubled.map(|dim| (dim.name, 2 * dim.size));
    x.resize(&Resize::to(doubled)).dense(dim("channel", onto), "up")
}

/// Features of every voxel: down level by level, and up again, beside what was there on the way down.
fn unet(x: Tensor<'_>, channels: usize, levels: u32) -> Tensor<'_> {
    let here = block(x, channels, "down");
    if levels == 0 {
        return here;
    }
    let _scope = x.graph().scope("below");
    let smaller = here.max_pool(&Pool::over([("depth", 2), ("height", 2), ("width", 2)]));
    let below = unet(smaller, 2 * channels, levels - 1);
    let above = up(below, channels);
    block(here.concat(&[above], "channel"), channels, "up_again")
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let [batch, depth, height, width] =
        [("batch", BATCH), ("depth", SIDE), ("height", SIDE), ("width", SIDE)]
            .map(|(n, s)| dim(n, s));
    let volume = g.input("volume", [batch, depth, height, width], F32);
    let ball = g.input("ball", [batch, depth, height, width], F32);
    let channel = dim("channel", 1);
    let x = volume.reshape([batch, depth, height, width, channel]);
    let found = unet(x, flags.channels, flags.levels).dense(channel, "logits").sum([channel]);

    let loss = sigmoid_cross_entropy(found, ball).mean();
    let update = AdamWeightDecay::new(5e-4).minimize(loss);
    let train = g.function("train", [volume, ball], [loss], update);
    // As a coefficient of sets the F1 score is Dice's.
    let (found, there) = (found.greater(0.0), ball.greater(0.5));
    let dice = f1_score(&Counted { found, there, kept: &[], weights: None }).value();
    let evaluate = g.function("evaluate", [volume, ball], [dice], []);

    let mut session = flags.short.session(&g, BATCH)?;
    let seed = flags.short.seed;
    let batches = Dataset::from_function(u64::MAX, move |_, index| {
        let [volume, ball] = balls(seed, index + 1);
        Record::new([("volume", Array::from(volume)), ("ball", Array::from(ball))])
    });
    Trainer::new(&mut session, train.name(), batches)
        .steps(flags.short.steps(200))
        .quiet()
        .watch(Losses::default())
        .run()?;

    let [volume, ball] = balls(seed, 0);
    let [dice] = session.call(&evaluate, [(&volume).into(), (&ball).into()])?;
    say(&format!("dice of unseen volumes {:.3}", dice.to_f64()));
    Ok(())
}

/// Volumes with a ball each, in noise as strong as the ball, and where the balls are.
fn balls(seed: u64, index: u64) -> [Array4<f32>; 2] {
    let mut rng = Rng::keyed(seed, 0, index);
    let mut ball = Array4::zeros((BATCH, SIDE, SIDE, SIDE));
    for mut volume in ball.axis_iter_mut(Axis(0)) {
        let radius = rng.between(2.5, 5.0);
        let middle = [(); 3].map(|()| rng.between(radius, SIDE as f32 - radius));
        volume.indexed_iter_mut().for_each(|((d, h, w), voxel)| {
            let apart =
                [d, h, w].into_iter().zip(middle).map(|(at, middle)| (at as f32 - middle).powi(2));
            *voxel = if apart.sum::<f32>() < radius * radius { 1.0 } else { 0.0 };
        });
    }
    let noisy = ball.mapv(|voxel: f32| voxel + rng.around_zero(1.0));
    [noisy, ball]
}
