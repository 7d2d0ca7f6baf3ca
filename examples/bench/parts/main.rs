//! Times of kernels, collectives, updates of matrices, building, lowering and passes.

mod common;

use common::{ALL_REDUCES, KERNELS, all_reduces, deep, kernel, lowered, matrices};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mesh_core::lower::Target;
use mesh_core::passes::{self, AllReduce, PassId};

fn kernels(c: &mut Criterion) {
    let mut group = c.benchmark_group("kernel");
    for kind in KERNELS {
        let mut running = kernel(kind);
        group.bench_function(kind, |b| b.iter(|| running.call()));
    }
}

fn collectives(c: &mut Criterion) {
    let mut group = c.benchmark_group("all-reduce");
    for (processors, elements) in [(2, 256), (2, 16 << 10), (2, 256 << 10), (4, 256)] {
        let mut running = all_reduces(processors, elements);
        group.throughput(Throughput::Elements(ALL_REDUCES as u64));
        group.bench_function(format!("{} KiB by {processors}", elements / 256), |b| {
            b.iter(|| running.call());
        });
    }
}

/// Muon's update of equal matrices, as variables of their own and as one variable.
fn updates(c: &mut Criterion) {
    let mut group = c.benchmark_group("muon");
    group.sample_size(10);
    for [count, rows, cols] in [[24, 32, 32], [24, 64, 64], [24, 128, 512], [6, 768, 768]] {
        for (stacked, how) in [(false, "apart"), (true, "stacked")] {
            let mut running = matrices(count, rows, cols, stacked);
            group.bench_function(format!("{count} of {rows}x{cols} {how}"), |b| {
                b.iter(|| running.call());
            });
        }
    }
}

fn compiling(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile");
    group.sample_size(20);
    group.bench_function("build and differentiate 16 layers", |b| b.iter(|| deep(16)));
    let graph = deep(16);
    group.bench_function("lower 16 layers", |b| b.iter(|| lowered(&graph)));
    let module = lowered(&graph);
    group.bench_function("compile 16 layers", |b| b.iter(|| module.compile(&Target::host())));
    let program = module.function("train").unwrap();
    let types: Vec<_> = module.variables().iter().map(|v| v.local(module.mesh())).collect();
    // Each pass is verified before and after, as in a release.
    for &pass in PassId::ALL {
        let run = |mut program| {
            let way = AllReduce::default();
            passes::improve(&mut program, module.mesh(), &types, way, &[pass]).unwrap();
            program
        };
        group.bench_function(format!("pass: {pass}"), |b| {
            b.iter_batched(|| program.clone(), run, BatchSize::LargeInput);
        });
    }
    group.bench_function("verify", |b| {
        b.iter(|| mesh_core::program::verify(program, module.mesh(), &types));
    });
    let executable = module.compile(&Target::host()).unwrap();
    let ready = &executable.functions[0].program;
    group.bench_function("plan memory", |b| b.iter(|| passes::plan(ready, &types)));
}

criterion_group!(parts, kernels, collectives, updates, compiling);
criterion_main!(parts);
