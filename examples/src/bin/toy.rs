//! Mesh TensorFlow's first example: two dense layers learn the identity, `cargo run --release --bin toy`.
//!
//! What its page writes as `--layout batch:x;hidden:y` splits the batch over x and the hidden dim over y: two
//! lines of the model and two strings. Everything else follows.

use clap::Parser;
use examples::Rng;
use examples::launch::exit;
use examples::report::say;
use examples::running::{Losses, ShortFlags};
use mesh_ops::prelude::*;
use mesh_optimize::dataset::{Dataset, Record};
use mesh_optimize::training::Trainer;
use mesh_optimize::{Optimizer, Sgd};
use ndarray::Array2;
use std::error::Error;
use std::process::ExitCode;

const BATCH: usize = 64;
const IO: usize = 16;

/// Trains two dense layers to return what they are given. Dims: batch, io, hidden.
#[derive(Parser, Debug)]
#[command(name = "toy", version)]
struct Flags {
    /// Hidden units.
    #[arg(long, default_value_t = 16)]
    hidden: usize,

    #[command(flatten)]
    short: ShortFlags,
}

fn main() -> ExitCode {
    exit(|| run(&Flags::parse()))
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let g = mesh_ops::graph();
    let (batch, io, hidden) = (dim("batch", BATCH), dim("io", IO), dim("hidden", flags.hidden));
    let x = g.input("x", [batch, io], F32);
    let variable = |name, dims: [Dimension; 2]| {
        let initializer = Initializer::variance_scaling(1.0, Fan::In, &dims[..1], &dims[1..]);
        g.variable(name, dims, F32, initializer).value()
    };
    let h = x.einsum(&[variable("w", [io, hidden])], [batch, hidden]);
    let y = h.einsum(&[variable("v", [hidden, io])], [batch, io]);
    let loss = (y - x).square().mean();
    let train = g.function("train", [x], [loss], Sgd::new(0.5).minimize(loss));

    let mut session = flags.short.session(&g, BATCH)?;
    let seed = flags.short.seed;
    let batches = Dataset::from_function(u64::MAX, move |_, index| {
        let mut rng = Rng::keyed(seed, 0, index);
        let x = Array2::from_shape_simple_fn((BATCH, IO), || rng.unit());
        Record::new([("x", Array::from(x))])
    });
    Trainer::new(&mut session, train.name(), batches)
        .steps(flags.short.steps(500))
        .quiet()
        .watch(Losses::default())
        .run()?;
    say("what goes in comes out");
    Ok(())
}
