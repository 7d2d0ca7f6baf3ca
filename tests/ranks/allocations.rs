//! Processors of ranks allocate nothing in a call of a function that they have called before.
#![expect(unsafe_code, reason = "counting allocations means being the allocator")]

use super::overlap::{self, wide};
use super::{mesh, models, modules, shared_meshes};
use mesh_core::session::Ranks;
use mesh_ops::prelude::*;
use mesh_optimize::{AdamWeightDecay, Optimizer};
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The allocations of processors' threads, and those of the threads that call sessions.
static COUNTS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

thread_local! {
    static CALLS_SESSIONS: Cell<bool> = const { Cell::new(false) };
}

/// Counts the allocations of Rust; MPI has an allocator of its own.
struct Counting;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        let calls = CALLS_SESSIONS.try_with(Cell::get).unwrap_or(true);
        COUNTS[usize::from(calls)].fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, start: *mut u8, block: Block) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(start, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A layer whose result must be split along its other dim.
fn turned() -> Graph {
    let graph = mesh_ops::graph();
    let input = graph.input("input", [dim("batch", 16), dim("x", 8)], F32);
    let hidden = input.dense(dim("y", 16), "layer").tanh();
    let turned = hidden.reshape([dim("rows", 16), dim("turned", 16)]);
    let loss = turned.square().mean();
    graph.function("train", [input], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
    graph
}

/// The number of calls that may allocate, and of those that are counted.
const STEPS: [usize; 2] = [2, 4];

/// The allocations of the processors and of the calling thread in the counted calls.
fn counts(session: &mut Session, module: &Module) -> [usize; 2] {
    let feeds = models::feeds(module, "train");
    let feeds = models::borrowed(&feeds);
    let mut run = |steps| {
        (0..steps).for_each(|_| drop(session.call_named("train", &feeds).unwrap()));
        COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed))
    };
    let before = run(STEPS[0]);
    assert!(before[0] > 0, "threads allocate when they start, and are counted");
    let after = run(STEPS[1]);
    [0, 1].map(|whose| after[whose] - before[whose])
}

/// All models and all collectives, with couriers and without, on one processor per rank and on several.
pub fn run() {
    CALLS_SESSIONS.set(true);
    let own = [("wide", wide(), overlap::LAYOUT), ("turned", turned(), "batch:a; turned:a")];
    let mut forms = BTreeSet::new();
    for mesh in [mesh()].into_iter().chain(shared_meshes().pop()) {
        let mut modules = modules(&mesh);
        modules.extend(own.iter().map(|(name, graph, layout)| {
            let layout: Layout = layout.parse().unwrap();
            ((*name).to_owned(), graph.lower(&mesh, &layout).unwrap())
        }));
        for (name, module) in modules {
            let steps = module.functions().iter().flat_map(|function| function.steps());
            let met = steps.filter(|step| step.axes().is_some());
            forms.extend(met.map(|step| step.form.name()));
            let [_, expected] = counts(&mut Session::threads(&module, 5).unwrap(), &module);
            for couriers in [true, false] {
                let ranks = Ranks::default().couriers(couriers);
                let mut session = Session::mpi_with(&module, 5, &ranks).unwrap();
                let [processors, caller] = counts(&mut session, &module);
                let what = format!("{name} on {mesh}, couriers: {couriers}");
                assert_eq!(processors, 0, "allocations of {what}");
                assert!(caller <= expected, "{caller} of {what}, not {expected} as with threads");
            }
        }
    }
    println!("nothing was allocated by {}", forms.into_iter().collect::<Vec<_>>().join(", "));
}
