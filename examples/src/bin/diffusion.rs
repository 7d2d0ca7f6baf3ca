//! A small diffusion model (arXiv 2006.11239) that draws digits: `cargo run --release --bin diffusion -- --report
//! digits.html`.
//!
//! It learns which noise was added to an image of a digit, and takes it from nothing but noise, again and again. `--mesh "a:2;b:2" --layout "batch:a;height:b"` splits examples and images.

use clap::Parser;
use examples::Rng;
use examples::data::Digits;
use examples::launch::exit;
use examples::report::say;
use examples::running::{Losses, ShortFlags};
use mesh_ops::conv::Conv;
use mesh_ops::layers::{ConvLayer, group_norm, squared_error};
use mesh_ops::pool::Pool;
use mesh_ops::prelude::*;
use mesh_ops::random::{random_normal, random_uniform};
use mesh_ops::resize::Resize;
use mesh_optimize::training::{Image, Report, Trainer};
use mesh_optimize::{AdamWeightDecay, Optimizer};
use ndarray::{Array1, Array4, ArrayView4};
use std::error::Error;
use std::f64::consts::FRAC_PI_2;
use std::path::PathBuf;
use std::process::ExitCode;

const BATCH: usize = 16;
const SIDE: usize = 28;
/// Levels of noise.
const LEVELS: usize = 60;

/// Trains a diffusion model on digits. Dims: batch, height, width, channel.
#[derive(Parser, Debug)]
#[command(name = "diffusion", version)]
struct Flags {
    /// Channels of whole images; halved images have twice as many.
    #[arg(long, default_value_t = 16)]
    channels: usize,

    /// Write a page with samples to this file.
    #[arg(long)]
    report: Option<PathBuf>,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

/// How much of an image's variance is left at a level, by the cosine schedule (arXiv 2102.09672, equation 17).
fn left(level: usize) -> f64 {
    let angle = |level: usize| (level as f64 / LEVELS as f64 + 0.008) / 1.008 * FRAC_PI_2;
    (angle(level).cos() / angle(0).cos()).powi(2).clamp(1e-4, 1.0)
}

/// A convolution of 3 x 3 behind a group norm, with something added for the level of noise.
fn block<'g>(x: Tensor<'g>, level: Tensor<'g>, channels: usize, name: &str) -> Tensor<'g> {
    let _scope = x.graph().scope(name);
    let windows = Conv::over([("height", "fh"), ("width", "fw")]);
    let onto = dim("channel", channels);
    let x = ConvLayer::onto(onto, &windows, [3, 3]).apply(x, "conv");
    let space = [x.dim("height"), x.dim("width")].into_iter().flatten();
    group_norm(x + level.dense(onto, "level"), onto, 4, space, "norm").swish()
}

/// The noise in images, given the features of its level: whole images, halved ones, and both together.
fn noise<'g>(x: Tensor<'g>, level: Tensor<'g>, channels: usize) -> Tensor<'g> {
    let whole = block(x, level, channels, "whole");
    let smaller = whole.avg_pool(&Pool::over([("height", 2), ("width", 2)]));
    let half = block(smaller, level, 2 * channels, "half");
    let half = half + block(half, level, 2 * channels, "half_again");
    let up = half.resize(&Resize::to([("height", SIDE), ("width", SIDE)]));
    let both = block(whole.concat(&[up], "channel"), level, channels, "both");
    both.dense(dim("channel", 1), "noise")
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let (g, batch) = (mesh_ops::graph(), dim("batch", BATCH));
    let dims = [batch, dim("height", SIDE), dim("width", SIDE), dim("channel", 1)];
    let (image, label) = (g.input("image", dims, F32), g.input("label", [batch], I32));

    // Pixels between -1 and 1, and noise of a level for each example.
    let level = random_uniform(&g, [batch], 1.0, LEVELS as f64 + 1.0, F32).floor().cast(I32);
    let (table, levels) = (Array1::from_iter((0..=LEVELS).map(left)), dim("levels", LEVELS + 1));
    let left_of = g.constant(table, [levels]).cast(F32).gather(level, levels);
    let added = random_normal(&g, dims, 0.0, 1.0, F32);
    let noised = (image * 2.0 - 1.0) * left_of.sqrt() + added * (1.0 - left_of).sqrt();
    let frequencies = Array1::from_iter((0..8).map(|i| 30f32.powf(-(i as f32) / 8.0)));
    let angles = level.cast(F32) * g.constant(frequencies, [dim("feature", 8)]);
    let digit = label.one_hot(dim("feature", 10), F32);
    let features = angles.sin().concat(&[angles.cos(), digit], "feature");
    let found = noise(noised, features, flags.channels);
    let loss = squared_error(found, added).mean();
    let update = AdamWeightDecay::new(2e-3).minimize(loss);
    let train = g.function("train", [image, label], [loss], update);

    let (x, fed) = (g.input("x", dims, F32), g.input("level", [batch], I32));
    let again = g.replace(&[found], &[(noised, x), (level, fed)])[0];
    let denoise = g.function("denoise", [x, fed, label], [again], []);

    let mut session = flags.short.session(&g, BATCH)?;
    let digits = Digits::generate(flags.short.seed, 8_000, 64).train;
    let images = digits.batches(&[SIDE, SIDE, 1], BATCH, flags.short.seed)?;
    Trainer::new(&mut session, train.name(), images)
        .steps(flags.short.steps(1_000))
        .quiet()
        .watch(Losses::default())
        .run()?;

    let labels = Array1::from_iter((0..10).cycle().take(BATCH));
    let samples = drawn(flags.short.seed, |x, level| {
        let levels = Array1::from_elem(BATCH, level as i32);
        let [noise] = session.call(&denoise, [x.into(), (&levels).into(), (&labels).into()])?;
        Ok(Array4::from_shape_vec(x.dim(), noise.to_f64().iter().map(|x| *x as f32).collect())?)
    })?;
    if let Some(path) = &flags.report {
        let (title, images) = ("digits out of noise".to_owned(), vec![picture(samples.view())]);
        std::fs::write(path, Report { title, images, ..Report::default() }.html())?;
    }
    say(&format!("mean pixel of {BATCH} samples {:.3}", samples.mean().unwrap_or(0.0)));
    Ok(())
}

/// Samples from noise, level by level: the image is estimated, and noise of the next level put on it (equation 7).
fn drawn(
    seed: u64,
    mut noise: impl FnMut(&Array4<f32>, usize) -> Result<Array4<f32>, Box<dyn Error>>,
) -> Result<Array4<f32>, Box<dyn Error>> {
    // A sum of twelve uniform numbers is nearly normal.
    let mut rng = Rng::keyed(seed, 1, 0);
    let mut normal = || (0..12).map(|_| rng.unit()).sum::<f32>() - 6.0;
    let mut x = Array4::from_shape_simple_fn((BATCH, SIDE, SIDE, 1), &mut normal);
    for level in (1..=LEVELS).rev() {
        let [here, next] = [left(level) as f32, left(level - 1) as f32];
        let mut image = (&x - noise(&x, level)? * (1.0 - here).sqrt()) / here.sqrt();
        image.mapv_inplace(|pixel| pixel.clamp(-1.0, 1.0));
        let (step, part) = (1.0 - here / next, (1.0 - next) / (1.0 - here));
        x = image * (next.sqrt() * step / (1.0 - here)) + x * ((1.0 - step).sqrt() * part);
        x.mapv_inplace(|pixel| pixel + (step * part).sqrt() * normal());
    }
    Ok(x)
}

/// All samples side by side.
fn picture(samples: ArrayView4<'_, f32>) -> Image {
    let rows = samples.permuted_axes([1, 0, 2, 3]);
    let pixels = rows.iter().map(|pixel| ((pixel + 1.0) * 127.5).clamp(0.0, 255.0) as u8).collect();
    Image { title: "samples".to_owned(), width: BATCH * SIDE, pixels }
}
