//! `all-reduce`: sums over threads, or ranks, through a session.

use super::lines::{Lines, median};
use examples::backend::BackendFlags;
use mesh_core::lower::Target;
use mesh_core::names::{AxisList, Mesh, ReduceKind};
use mesh_core::program::{Builder, Extents, Offset, Program, Scalar, Slot};
use mesh_ops::prelude::*;
use std::error::Error;
use std::time::Instant;

/// How many threads, or ranks that `mpirun` has started.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Numbers of threads; on ranks, their number.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4])]
    processors: Vec<usize>,

    /// The largest buffer, in KiB.
    #[arg(long, default_value_t = 64 << 10)]
    largest: usize,

    /// What runs them.
    #[command(flatten)]
    backend: BackendFlags,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    for &processors in &flags.processors {
        let mut kib = 1;
        while kib <= flags.largest {
            let seconds = measure(processors, kib, &flags.backend)?;
            let lines = Lines::new(format!("allreduce_{kib}KiB"), format!("n{processors}"));
            lines.line("us_median", seconds * 1e6)?;
            lines.line("algbw_gb_per_s", (kib << 10) as f64 / seconds / 1e9)?;
            kib *= 4;
        }
    }
    Ok(())
}

/// The seconds of one all-reduce: the median over calls of many, so that the time of a call does
/// not matter.
pub(crate) fn measure(
    processors: usize,
    kib: usize,
    backend: &BackendFlags,
) -> Result<f64, Box<dyn Error>> {
    let (repeats, calls) = match kib {
        ..=64 => (1000, 15),
        65..=1024 => (200, 9),
        1025..=16384 => (20, 5),
        _ => (6, 3),
    };
    let mesh = Mesh::new([("all", processors)])?;
    let axes: Vec<_> = mesh.axes().collect();
    let mut program = Builder::new("all_reduce", &mesh);
    let zeros = Scalar::new(F32, 0.0);
    let mut value = program.fill(zeros, Extents::from_slice(&[kib * 256]));
    for _ in 0..repeats {
        value = program.all_reduce(ReduceKind::Sum, &axes, value);
    }
    // One element is fetched, so that every back-end has them all to do, and waits.
    let one = program.cut(value, vec![Offset::fixed(0)], Extents::from_slice(&[1]));
    let slot = Slot {
        name: "one".into(),
        shape: vec![1],
        split: vec![AxisList::new()],
        ..Slot::default()
    };
    program.fetch(slot, one);
    // No passes: what is measured is each sum as it stands.
    let function = program.finish();
    let module = Module::new(mesh, Vec::new(), vec![function], Program::default())?;
    let target = Target { passes: Vec::new(), ..Target::host() };
    let mut session = backend.session(&module, 0, target)?;
    // A fixed number: ranks call together.
    for _ in 0..calls {
        session.call_named("all_reduce", &[])?;
    }
    let mut times = Vec::new();
    for _ in 0..calls {
        let started = Instant::now();
        session.call_named("all_reduce", &[])?;
        times.push(started.elapsed().as_secs_f64() / repeats as f64);
    }
    Ok(median(times))
}
