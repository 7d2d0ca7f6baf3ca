//! `scaling`: the training step of a transformer against its batch, width, depth and processors.

use super::lines::{Lines, median};
use super::models::{LM, Loss, Transformer, adamw, lm};
use examples::Rng;
use examples::backend::BackendFlags;
use mesh_core::lower::Target;
use mesh_ops::prelude::*;
use mesh_optimize::Optimizer;
use ndarray::Array2;
use std::error::Error;
use std::time::Instant;

/// What is measured, for how long.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Processors; all share the batch.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    processors: Vec<usize>,

    /// How long each is measured.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// What runs it.
    #[command(flatten)]
    backend: BackendFlags,
}

/// The sizes from which one at a time is doubled.
const BASE: Transformer = Transformer { layers: 2, vocab: 1024, ..LM };
const DOUBLED: u32 = 4;

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    type Grow = fn(usize) -> Transformer;
    let sizes: [(&str, Grow); 3] = [
        ("batch", |n| Transformer { batch: BASE.batch * n, ..BASE }),
        ("width", |n| Transformer {
            d_model: BASE.d_model * n,
            d_ff: BASE.d_ff * n,
            heads: BASE.heads * n,
            ..BASE
        }),
        ("depth", |n| Transformer { layers: BASE.layers * n, ..BASE }),
    ];
    for &processors in &flags.processors {
        for (what, grow) in sizes {
            for times in (0..DOUBLED).map(|doubled| 1 << doubled) {
                let lines = Lines::new(format!("scale_{what}_x{times}"), format!("dp{processors}"));
                let sizes = grow(times);
                let (least, middle) = measure(&sizes, processors, flags)?;
                lines.line("step_ms_min", least * 1e3)?;
                lines.line("step_ms_median", middle * 1e3)?;
                lines.line("gflops", sizes.flops() / least / 1e9)?;
            }
        }
    }
    Ok(())
}

/// The least and the median seconds of a step.
fn measure(
    sizes: &Transformer,
    processors: usize,
    flags: &Flags,
) -> Result<(f64, f64), Box<dyn Error>> {
    let graph = mesh_ops::graph();
    let Loss { inputs, loss } = lm(&graph, sizes);
    let train = graph.function("train", inputs, [loss], adamw().minimize(loss));
    let mesh = Mesh::new([("all", processors)])?;
    let module = graph.lower(&mesh, &"batch:all".parse()?)?;
    let mut session = flags.backend.session(&module, 0, Target::host())?;
    let mut rng = Rng::keyed(1, 0, 0);
    let mut words = || {
        let word = || rng.below(sizes.vocab) as i32;
        Array::from(Array2::from_shape_simple_fn((sizes.batch, sizes.length), word))
    };
    let (text, next) = (words(), words());
    let mut loss = [Array::from(0f32)];
    let mut step = || session.call_into(&train, [text.view(), next.view()], &mut loss);
    step()?;
    let (mut times, started) = (Vec::new(), Instant::now());
    while started.elapsed().as_secs_f64() < flags.seconds || times.len() < 3 {
        let begin = Instant::now();
        step()?;
        times.push(begin.elapsed().as_secs_f64());
    }
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok((least, median(times)))
}
