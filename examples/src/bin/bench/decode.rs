//! `decode`: tokens of a language model one after the other, with a cache of keys and values.
//!
//! The model is that of `lm`, with random weights; each token is the likeliest one after the token before. What a
//! token must read at least is its weights and the filled part of the cache; how long a core takes to read as
//! many bytes again and again is measured beside it.

use super::lines::{Lines, median};
use examples::backend::BackendFlags;
use examples::launch::parse;
use examples::models::lm::{self, Sizes};
use mesh_core::lower::Target;
use mesh_ops::attention::Exchange;
use mesh_ops::layers::attention::AttentionWay;
use mesh_ops::prelude::*;
use ndarray::arr0;
use pulp::Arch;
use std::error::Error;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// What is generated.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Positions that the cache has room for.
    #[arg(long, value_delimiter = ',', default_values_t = [512, 1024, 4096])]
    capacity: Vec<usize>,

    /// The first position that is timed; those before it fill the cache.
    #[arg(long, default_value_t = 50)]
    from: usize,

    /// The position behind the last.
    #[arg(long, default_value_t = 500)]
    to: usize,

    /// How often the text is written.
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Size of the vectors between layers; of the hidden ones it is four times this.
    #[arg(long, default_value_t = 256)]
    width: usize,

    /// Layers.
    #[arg(long, default_value_t = 4)]
    depth: usize,

    /// Heads of attention, which divide the width.
    #[arg(long, default_value_t = 4)]
    heads: usize,

    /// Different tokens.
    #[arg(long, default_value_t = 256)]
    vocab: usize,

    /// Processors as a grid: `all:2`.
    #[arg(long, default_value = "")]
    mesh: String,

    /// How dims are split over mesh axes: `heads:all;d_ff:all;vocab:all`.
    #[arg(long, default_value = "")]
    layout: String,

    /// What makes the tokens.
    #[command(flatten)]
    backend: BackendFlags,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    if flags.from >= flags.to {
        return Err("--from and --to leave no position".into());
    }
    let layout = match flags.mesh.is_empty() {
        true => "single".to_owned(),
        false => format!("{},{}", flags.mesh, flags.layout).replace(' ', ""),
    };
    for &capacity in &flags.capacity {
        let lines = Lines::new(format!("decode_{capacity}"), layout.as_str());
        let Measured { times, bytes, processors } = flags.measure(capacity)?;
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let token = median(times);
        let reading = reading(processors, bytes);
        lines.line("ms_per_token", token * 1e3)?;
        lines.line("ms_per_token_min", least * 1e3)?;
        lines.line("mib_read", bytes as f64 / f64::from(1 << 20))?;
        lines.line("ms_to_read_them", reading * 1e3)?;
        lines.line("of_reading", token / reading)?;
    }
    Ok(())
}

struct Measured {
    /// Seconds of each token.
    times: Vec<f64>,
    /// Of the weights, and of the cache filled up to the middle of what is timed.
    bytes: usize,
    processors: usize,
}

impl Flags {
    fn sizes(&self, capacity: usize) -> Result<Sizes, String> {
        let &Self { width, depth, heads, vocab, .. } = self;
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(format!("--heads {heads}: heads share the width {width} evenly"));
        }
        Ok(Sizes {
            batch: 1,
            sequence: capacity,
            width,
            heads,
            hidden: 4 * width,
            depth,
            vocab,
            scan: false,
            recompute: false,
            attention: AttentionWay::Auto,
            exchange: Exchange::Auto,
            pieces: None,
            dtype: F32,
        })
    }

    fn measure(&self, capacity: usize) -> Result<Measured, Box<dyn Error>> {
        if self.to > capacity {
            return Err(format!("--to {}: the cache has room for {capacity}", self.to).into());
        }
        let graph = mesh_ops::graph();
        let sizes = self.sizes(capacity)?;
        let next = lm::build_decoding(&graph, &sizes);
        let mesh = parse("mesh", &self.mesh)?;
        let module = graph.lower(&mesh, &parse("layout", &self.layout)?)?;
        let mut session = self.backend.session(&module, 0, Target::host())?;
        let mut logits = [Array::from(0f32)];
        let mut times = Vec::with_capacity(self.rounds * (self.to - self.from));
        for _ in 0..self.rounds {
            let mut token = 1;
            for position in 0..self.to {
                let begun = Instant::now();
                let feeds = [arr0(token), arr0(position as i32)];
                let feeds = [feeds[0].view().into(), feeds[1].view().into()];
                session.call_into(&next, feeds, &mut logits)?;
                token = likeliest(&logits[0]);
                if position >= self.from {
                    times.push(begun.elapsed().as_secs_f64());
                }
            }
        }
        let filled = (self.from + self.to) / 2;
        Ok(Measured { times, bytes: sizes.read(filled), processors: mesh.processors() })
    }
}

/// The token of the greatest logit.
fn likeliest(logits: &Array) -> i32 {
    let greatest = |(best, most): (usize, f64), (token, &logit): (usize, &f64)| {
        if logit > most { (token, logit) } else { (best, most) }
    };
    logits.to_f64().iter().enumerate().fold((0, f64::NEG_INFINITY), greatest).0 as i32
}

/// Seconds in which threads read so many bytes together, of which each has its own part and goes through it
/// again and again: the median of several passes.
fn reading(threads: usize, bytes: usize) -> f64 {
    const PASSES: usize = 41;
    let barrier = Barrier::new(threads);
    let work = || {
        let own = vec![1f32; (bytes / 4 / threads).max(1)];
        let pass = || {
            barrier.wait();
            let begun = Instant::now();
            black_box(sum(black_box(&own)));
            barrier.wait();
            begun.elapsed().as_secs_f64()
        };
        median((0..PASSES).map(|_| pass()).collect())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).fold(0.0, f64::max)
    })
}

fn sum(numbers: &[f32]) -> f32 {
    const LANES: usize = 64;
    Arch::new().dispatch(|| {
        let mut sums = [0f32; LANES];
        for chunk in numbers.chunks_exact(LANES) {
            sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x);
        }
        sums.iter().sum()
    })
}
