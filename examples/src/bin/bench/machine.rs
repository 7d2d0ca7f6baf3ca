//! `machine`: measures this machine, and prints it as the file that `--machine` reads.

use super::all_reduce;
use super::lines::median;
use super::triad::bandwidth;
use examples::backend::BackendFlags;
use examples::ranks::launched;
use examples::report::print;
use mesh_core::lower::{Options, Target};
use mesh_core::passes::{Caches, Flops, Level, Machine};
use mesh_ops::prelude::*;
use mesh_optimize::search::machine_text;
use std::error::Error;
use std::fs;
use std::time::Instant;

/// How many processors are measured.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Processors that compute at once; on ranks, all of them. By default this machine's cores.
    #[arg(long)]
    processors: Option<usize>,

    /// What runs them.
    #[command(flatten)]
    backend: BackendFlags,
}

/// Bytes of memory that each thread goes through: beyond all caches.
const FAR: usize = 64 << 20;
/// KiB of all-reduces that take their latency, and of those that take their bytes.
const SHORT: usize = 1;
const LONG: usize = 4 << 10;

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let cores = std::thread::available_parallelism()?.get();
    let ranks = launched().map(|launched| launched.ranks);
    let at_once = flags.processors.or(ranks).unwrap_or(cores);
    let backend = &flags.backend;
    let rate = |dtype| products(dtype, at_once, backend);
    let flops = Flops { f64: rate(F64)?, f32: rate(F32)?, bf16: rate(BF16)? };
    let mut levels = Vec::new();
    if at_once > 1 {
        let name = if ranks.is_some() { "ranks" } else { "cores" };
        levels.push(level(name, at_once, at_once, backend)?);
    }
    // More threads than cores take turns.
    if ranks.is_none() {
        levels.push(level("cores in turn", 2 * at_once, 1 << 20, backend)?);
    }
    let machine = Machine {
        name: "measured".to_owned(),
        flops,
        memory: bandwidth(at_once.min(cores), FAR) / at_once as f64,
        capacity: memory_bytes().unwrap_or(4 << 30) / at_once as u64,
        begin: begin(at_once, backend)?,
        cores: ranks.is_none().then_some(at_once),
        levels,
        caches: Caches {
            own_bytes: own_cache().unwrap_or(Caches::default().own_bytes),
            vector_bytes: vector_bytes(),
            ..Caches::default()
        },
    };
    let how = format!(
        "# Measured by `bench machine` on {at_once} processors at once, {cores} cores in all.\n"
    );
    Ok(print((how + &machine_text(&machine)).trim_end())?)
}

/// Bytes of the widest vectors that this machine's kernels use.
fn vector_bytes() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return 64;
        }
        if is_x86_feature_detected!("avx2") {
            return 32;
        }
    }
    16
}

/// Least seconds of a call.
fn least(session: &mut Session, feeds: &[(&str, Array)]) -> Result<f64, Box<dyn Error>> {
    const CALLS: usize = 12;
    let views: Vec<_> = feeds.iter().map(|(name, array)| (*name, array.view())).collect();
    let mut least = f64::INFINITY;
    for _ in 0..CALLS {
        let started = Instant::now();
        session.call_named("f", &views)?;
        least = least.min(started.elapsed().as_secs_f64());
    }
    Ok(least)
}

/// Floating-point operations of a processor in a second, in products of matrices of 512 x 512.
fn products(
    dtype: DType,
    processors: usize,
    backend: &BackendFlags,
) -> Result<f64, Box<dyn Error>> {
    const SIZE: usize = 512;
    const COUNT: usize = 8;
    let graph = mesh_ops::graph();
    let (all, row) = (dim("all", processors), dim("row", SIZE));
    let (inner, outer) = (dim("inner", SIZE), dim("outer", SIZE));
    let small = Initializer::Uniform { low: -0.1, high: 0.1 };
    let weight = graph.variable("weight", [inner, outer], dtype, small).value();
    let start = graph.input("start", [], F32);
    let mut x = start.cast(dtype).broadcast(&Shape::new([all, row, inner])?);
    for _ in 0..COUNT {
        x = x.einsum(&[weight], [all, row, outer]).rename(outer, inner.name.as_str());
    }
    graph.function("f", [start], [x.cast(F32).mean()], []);
    let mesh = Mesh::new([("all", processors)])?;
    let module = graph.lower(&mesh, &"all:all".parse()?)?;
    let mut session = backend.session(&module, 0, Target::host())?;
    let seconds = least(&mut session, &[("start", Array::from(1f32))])?;
    Ok((2 * COUNT * SIZE.pow(3)) as f64 / seconds)
}

/// Seconds that it takes to begin a step: of many that do little.
fn begin(processors: usize, backend: &BackendFlags) -> Result<f64, Box<dyn Error>> {
    const STEPS: usize = 1000;
    let graph = mesh_ops::graph();
    let start = graph.input("start", [dim("few", 8)], F32);
    let x = (0..STEPS).fold(start, |x, _| x.sin());
    graph.function("f", [start], [x], []);
    let mesh = Mesh::new([("all", processors)])?;
    let bare = Options { passes: Vec::new(), ..Options::default() };
    let module = graph.lower_with(&mesh, &Layout::default(), &bare)?;
    let target = Target { passes: Vec::new(), ..Target::host() };
    let mut session = backend.session(&module, 0, target)?;
    let few = Array::from(ndarray::Array1::from_elem(8, 1f32));
    Ok(least(&mut session, &[("start", few)])? / STEPS as f64)
}

/// A level that joins so many processors, by all-reduces of as many as are measured.
fn level(
    name: &str,
    measured: usize,
    processors: usize,
    backend: &BackendFlags,
) -> Result<Level, Box<dyn Error>> {
    let mut times = [SHORT, LONG].map(|kib| (kib, Vec::new()));
    for _ in 0..3 {
        for (kib, times) in &mut times {
            times.push(all_reduce::measure(measured, *kib, backend)?);
        }
    }
    let [(_, short), (kib, long)] = times;
    let (short, long) = (median(short), median(long));
    let rounds = (measured as f64).log2().ceil();
    let received = 2.0 * (measured - 1) as f64 / measured as f64 * (kib << 10) as f64;
    let bandwidth = received / (long - short).max(long / 10.0);
    Ok(Level { name: name.to_owned(), processors, latency: short / (2.0 * rounds), bandwidth })
}

/// The machine's memory, as Linux counts it.
fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// Bytes of a core's second-level cache, as Linux says.
fn own_cache() -> Option<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").ok()?;
    let kib: usize = text.trim().strip_suffix('K')?.parse().ok()?;
    Some(kib << 10)
}
