//! How much memory checkpoints take beside the variables.
#![expect(unsafe_code, reason = "counting bytes means being the allocator")]

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_core::session::checkpoint::{Checkpoint, Checkpoints, Restore, State};
use mesh_ops::prelude::*;

/// The bytes that are allocated, and the most since [`peak`] started to watch.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        let live = LIVE.fetch_add(block.size(), Ordering::SeqCst) + block.size();
        PEAK.fetch_max(live, Ordering::SeqCst);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, start: *mut u8, block: Block) {
        LIVE.fetch_sub(block.size(), Ordering::SeqCst);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(start, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The largest number of bytes that are allocated at once during `what` and were not before.
fn peak<T>(what: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE.load(Ordering::SeqCst);
    PEAK.store(before, Ordering::SeqCst);
    let result = what();
    (PEAK.load(Ordering::SeqCst) - before, result)
}

/// Elements of each variable; the largest is much larger than a buffer, all together are several
/// times the largest.
const SIZES: [usize; 5] = [1 << 20, 1 << 19, 1 << 20, 1 << 21, 1 << 20];

/// The buffer through which files are read and written, and names, tables and paths.
const BESIDE: usize = (1 << 20) + (1 << 16);

#[test]
fn checkpoints_are_written_and_read_slice_by_slice() {
    let g = mesh_ops::graph();
    let norms = [0, 1, 2, 3, 4].map(|i| {
        let (name, x) = (format!("v{i}"), dim("x", SIZES[i]));
        g.variable(&name, [x], F32, Initializer::ONES).value().square().sum_all()
    });
    g.function("norms", [], norms, []);
    let [all, largest] = [SIZES.iter().sum::<usize>(), SIZES[3]].map(|elements| 4 * elements);
    let folder = std::env::temp_dir().join(format!("mesh-memory-{}", std::process::id()));
    for (mesh, layout) in [("", ""), ("d:2", ""), ("d:4", "x:d")] {
        let module = g.lower(&mesh.parse().unwrap(), &layout.parse().unwrap()).unwrap();
        let mut session = Session::threads(&module, 0).unwrap();
        let (bytes, snapshot) = peak(|| session.snapshot().unwrap());
        assert!((all..all + BESIDE).contains(&bytes), "{layout}: a snapshot takes {bytes}");
        let checkpoints = Checkpoints::new(&folder);
        let (bytes, path) = peak(|| checkpoints.save(1, &snapshot, &State::new()).unwrap());
        assert!(bytes < BESIDE, "{layout}: a save takes {bytes}");
        drop(snapshot);
        let checkpoint = Checkpoint::open(path).unwrap();
        let (bytes, _) = peak(|| session.restore(&checkpoint, &Restore::all()).unwrap());
        assert!((largest..largest + BESIDE).contains(&bytes), "{layout}: a restore takes {bytes}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
