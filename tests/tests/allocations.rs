//! Law 10: processors allocate nothing in a call of a function that they have called before.
#![expect(unsafe_code, reason = "counting allocations means being the allocator")]

use mesh_core::program::Form;
use mesh_core::session::Threads;
use mesh_ops::prelude::*;
use mesh_optimize::{Adafactor, AdamWeightDecay, Optimizer};
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::on_host;

/// The allocations of processors' threads, and those of the threads that call sessions.
static COUNTS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

thread_local! {
    static CALLS_SESSIONS: Cell<bool> = const { Cell::new(false) };
}

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

/// Products that need the GEMM's packing buffers, a convolution, and both optimizers.
fn classifier(g: &Graph) -> (Function<1, 1>, Function<1, 1>) {
    let (batch, rows, channel) = (dim("batch", 32), dim("rows", 64), dim("channel", 1));
    let x = g.input("x", [batch, rows, channel], F32);
    let taps = g.variable("taps", [dim("tap", 5), channel, dim("c", 16)], F32, Initializer::ONES);
    let features = x.conv(taps.value(), &mesh_ops::conv::Conv::over([("rows", "tap")])).tanh();
    let h = mesh_ops::layers::Dense::onto([dim("hidden", 256)])
        .over([rows, dim("c", 16)])
        .apply(features, "hidden");
    let loss = h.relu().dense(dim("out", 256), "out").softmax(dim("out", 256)).square().mean();
    let adam = g.function("adam", [x], [loss], AdamWeightDecay::new(1e-3).minimize(loss));
    let _second = g.scope("second");
    let adafactor = g.function("adafactor", [x], [loss], Adafactor::default().minimize(loss));
    (adam, adafactor)
}

/// Ops that select by index or order, and their gradients.
fn lookups(g: &Graph) -> Function<1, 1> {
    let (batch, places) = (dim("batch", 32), dim("places", 64));
    let x = g.input("lines", [batch, places], F32);
    let (values, at) = x.top_k(places, dim("best", 8));
    let y = (x.cumsum(places).gather(at, places) * values).sum_all();
    let dx = g.gradients(&[y], &[x], None)[0].unwrap();
    g.function("lookups", [x], [dx.sum_all()], [])
}

/// What a caller's own thread does in a call of any function with a feed and a fetch like these.
fn nothing(g: &Graph) -> Function<1, 1> {
    let x = g.input("nothing", [dim("batch", 32), dim("rows", 64), dim("channel", 1)], F32);
    g.function("nothing", [x], [g.scalar(0.0, F32)], [])
}

fn counts() -> [usize; 2] {
    COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed))
}

/// The allocations of processors' threads and of the caller's in five calls.
fn five<const I: usize>(
    session: &mut Session,
    function: &Function<I, 1>,
    feeds: [ArrayRef<'_>; I],
) -> [usize; 2] {
    let mut loss = [Array::from(0f32)];
    session.call_into(function, feeds.clone(), &mut loss).unwrap();
    let before = counts();
    for _ in 0..5 {
        session.call_into(function, feeds.clone(), &mut loss).unwrap();
    }
    let after = counts();
    [0, 1].map(|whose| after[whose] - before[whose])
}

/// The first processor works on the caller's thread, where the call itself may allocate; what it does
/// there is no more than in a call that computes nothing. Where processors are kept on cores, it has a thread
/// of its own, too.
#[test]
fn processors_allocate_nothing_while_they_run() {
    CALLS_SESSIONS.set(true);
    let g = mesh_ops::graph();
    let (adam, adafactor) = classifier(&g);
    let (lookups, nothing) = (lookups(&g), nothing(&g));
    let data = ndarray::Array3::from_elem((32, 64, 1), 0.5f32);
    let lines = ndarray::Array2::from_shape_fn((32, 64), |(i, j)| ((i * 7 + j * 5) % 64) as f32);
    let grid = ("d:2;m:2", "batch:d;hidden:m;places:m");
    let usual = Threads::default();
    let ways = [
        (("", ""), usual.clone()),
        (("", ""), usual.clone().cores([0])),
        (("d:2", "batch:d;slots/*:d"), usual.clone()),
        (("d:2", "batch:d;slots/*:d"), usual.clone().cores([0, 0])),
        (grid, usual.clone()),
        (("d:2", "batch:d"), usual.couriers(true)),
    ];
    for ((mesh, layout), threads) in ways {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let functions = on_host(&module);
        let mut steps = functions.iter().flat_map(|function| function.program.steps());
        let awaits = steps.any(|step| matches!(step.form, Form::Await(_)));
        assert!(awaits || threads.couriers.is_none(), "nothing runs beside anything");
        let started = counts()[0];
        let mut session = Session::threads_with(&module, 0, &threads).unwrap();
        let own = mesh.is_empty() && threads.cores.is_empty();
        assert!(own || counts()[0] > started, "threads allocate when they start, and are counted");
        for recorded in [false, true] {
            session.record(recorded).unwrap();
            let [_, call] = five(&mut session, &nothing, [data.view().into()]);
            let found = [
                five(&mut session, &adam, [data.view().into()]),
                five(&mut session, &adafactor, [data.view().into()]),
                five(&mut session, &lookups, [lines.view().into()]),
            ];
            let what = format!("{layout} on {mesh:?}, {threads:?}, recorded: {recorded}");
            assert_eq!(found, [[0, call]; 3], "{what}");
        }
    }
}
