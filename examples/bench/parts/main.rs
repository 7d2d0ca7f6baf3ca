//! Times of kernels, collectives, building, lowering and passes.

mod common;

use common::{ALL_REDUCES, KERNELS, all_reduces, deep, kernel, lowered};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mesh_core::passes;
use mesh_core::program::{Owners, VariableType};

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

fn compiling(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile");
    group.sample_size(20);
    group.bench_function("build and differentiate 16 layers", |b| b.iter(|| deep(16)));
    let graph = deep(16);
    group.bench_function("lower 16 layers", |b| b.iter(|| lowered(&graph)));
    let module = lowered(&graph);
    let program = &module.function("train").unwrap().program;
    let types = module.variables().iter().map(|v| {
        let local = v.placement.local_shape(module.mesh(), &v.shape).unwrap();
        let extents = local.sizes().into_iter().collect();
        VariableType { name: v.name.clone(), dtype: v.dtype, extents, owners: Owners::new() }
    });
    let types: Vec<VariableType> = types.collect();
    for pass in passes::passes() {
        let run = |mut program| {
            (pass.run)(&mut program, module.mesh());
            program
        };
        group.bench_function(format!("pass: {}", pass.name), |b| {
            b.iter_batched(|| program.clone(), run, BatchSize::LargeInput);
        });
    }
    group.bench_function("plan memory", |b| b.iter(|| passes::plan(program, &types)));
}

criterion_group!(parts, kernels, collectives, compiling);
criterion_main!(parts);
