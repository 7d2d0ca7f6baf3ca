//! How long collectives among threads take.
//!
//! `cargo bench -p mesh_core --bench collectives -- [collective] [KiB] [pinned]`. Sizes are those of the
//! larger of a processor's input and result; GB/s are that size over the time. Two columns:
//!
//! * *still*: out of place, from an input that nobody changes, as MPI's benchmarks do it;
//! * *fresh*: each processor has just written all of its input, and changes all of the result next if
//!   it is of the same size; the time of that alone is subtracted. In place where it can be.
//!
//! `copies`: the processors each copy so many bytes of their own at once, which reads and writes as
//! many bytes as an all-reduce must.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that prints a table")]

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use mesh_core::array::Array;
use mesh_core::lower::{Module, Target};
use mesh_core::names::{Axis, DType, Mesh, ReduceKind};
use mesh_core::program::{Builder, Expr, Extents, Operand, Prim, Program, Scalar, Slot, ValueId};
use mesh_core::session::{Session, Threads};

const NAMES: [&str; 7] = [
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "permute",
    "broadcast",
    "reduce_to",
];

/// Runs per measurement; the best counts, since others use the machine too.
const RUNS: usize = 7;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let only_name = arguments.iter().find(|a| NAMES.contains(&a.as_str()));
    let only_size = arguments.iter().find_map(|a| a.parse::<usize>().ok());
    println!("best of {RUNS}; µs (GB/s)");
    for processors in [2, 4] {
        for name in NAMES.iter().filter(|name| only_name.is_none_or(|only| only == *name)) {
            for kib in (0..9).map(|i| 1 << (2 * i)) {
                if only_size.is_none_or(|only| only == kib) {
                    row(name, processors, kib * 1024);
                }
            }
        }
    }
}

fn row(name: &str, processors: usize, bytes: usize) {
    let count = ((64 << 20) / bytes).clamp(2, 1000);
    let still = [
        program(name, processors, bytes, 0, false),
        program(name, processors, bytes, count, false),
    ];
    let fresh = [
        program("", processors, bytes, count, true),
        program(name, processors, bytes, count, true),
    ];
    let [still, fresh] = [still, fresh].map(|programs| {
        let [without, with] = best(processors, programs);
        with.saturating_sub(without).as_secs_f64() / count as f64
    });
    let text = |seconds: f64| format!("{:.2} ({:.2})", seconds * 1e6, bytes as f64 / seconds / 1e9);
    let limit = if name == "all_reduce" { text(copies(processors, bytes)) } else { String::new() };
    println!(
        "{name:<15} {processors} {:>6} KiB  still {:>18}  fresh {:>18}  copies {limit:>18}",
        bytes / 1024,
        text(still),
        text(fresh)
    );
}

/// The shortest calls of two functions, in turn.
fn best(processors: usize, programs: [Program; 2]) -> [Duration; 2] {
    let mesh = mesh(processors);
    let functions: Vec<_> = programs.into();
    let names: Vec<_> = functions.iter().map(|f| f.name.clone()).collect();
    let module = Module::new(mesh, Vec::new(), functions, Program::default()).unwrap();
    let pinned = processors == 2 && std::env::args().any(|a| a == "pinned");
    let threads = Threads::default().target(as_written());
    let threads = if pinned { threads.cores([0, 1]) } else { threads };
    let mut session = Session::threads_with(&module, 0, &threads).unwrap();
    let mut best = [Duration::MAX; 2];
    for _ in 0..=RUNS {
        for (name, best) in names.iter().zip(&mut best) {
            let started = Instant::now();
            let results: Vec<(String, Array)> = session.call_named(name, &[]).unwrap();
            *best = started.elapsed().min(*best);
            black_box(results);
        }
    }
    best
}

fn mesh(processors: usize) -> Mesh {
    Mesh::new([("all", processors)]).unwrap()
}

/// `count` times the collective, or what is made and read around it alone if it has no name.
fn program(name: &str, processors: usize, bytes: usize, count: usize, fresh: bool) -> Program {
    let mesh = mesh(processors);
    let axes: Vec<_> = mesh.axes().collect();
    let mut p = Builder::new(&format!("{name}{count}"), &mesh);
    let rows = processors * processors;
    let whole = bytes / 4;
    // The dims are large enough to be cut by the processors.
    let shape = |elements: usize| Extents::from_slice(&[rows, elements / rows]);
    let small = matches!(name, "all_gather");
    let input = shape(if small { whole / processors } else { whole });
    let first = p.fill(Scalar::new(DType::F32, 1.0), input.clone());
    let mut value = first;
    for _ in 0..count {
        if fresh {
            value = scaled(&mut p, value);
        }
        let out = if name.is_empty() { value } else { collective(&mut p, name, &axes, value) };
        value = match fresh {
            true if name != "reduce_to" && p.value(out).extents == input => out,
            // As long as the time without the collective has it: something of the input's size.
            true => value,
            false => first,
        };
    }
    let value = p.fill(Scalar::new(DType::F32, 1.0), Extents::new());
    p.fetch(Slot { name: "end".to_owned(), ..Slot::default() }, value);
    p.finish()
}

/// Runs programs as they are.
fn as_written() -> Target {
    Target { passes: Vec::new(), ..Target::host() }
}

/// Half of every element.
fn scaled(p: &mut Builder<'_>, value: ValueId) -> ValueId {
    let expr = Expr::apply(Prim::Mul, [Expr::input(0), Expr::number(0.5)]);
    let extents = p.value(value).extents.clone();
    let operand = Operand { value, dims: (0..extents.len() as u8).collect() };
    p.map(vec![operand], extents, &expr, DType::F32).unwrap()
}

fn collective(p: &mut Builder<'_>, name: &str, axes: &[Axis], value: ValueId) -> ValueId {
    match name {
        "all_reduce" => p.all_reduce(ReduceKind::Sum, axes, value),
        "reduce_scatter" => p.reduce_scatter(ReduceKind::Sum, axes, 0, value),
        "all_gather" => p.all_gather(axes, 0, value),
        "all_to_all" => p.all_to_all(axes, 0, 1, value),
        "permute" => p.permute(axes, 1, true, value),
        "broadcast" => p.broadcast(axes, 0, value),
        _ => p.reduce_to(ReduceKind::Sum, axes, 0, value),
    }
}

/// Seconds that it takes as many threads to copy `bytes`, each its own.
fn copies(processors: usize, bytes: usize) -> f64 {
    let count = ((64 << 20) / bytes).clamp(2, 1000);
    let start = Barrier::new(processors);
    let work = || {
        let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
        let run = |_| {
            start.wait();
            let started = Instant::now();
            for _ in 0..count {
                black_box(&mut to).copy_from_slice(black_box(&from));
            }
            started.elapsed().as_secs_f64() / count as f64
        };
        (0..RUNS).map(run).fold(f64::MAX, f64::min)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).fold(0.0, f64::max)
    })
}
