//! Memory bandwidth: `a = b + 3 c`, the triad of STREAM.

use pulp::Arch;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Bytes per second of all threads together, of which each goes through `bytes` of its own memory
/// again and again. An element counts 12 bytes; the best of several measurements is returned.
pub(crate) fn bandwidth(threads: usize, bytes: usize) -> f64 {
    const ROUNDS: usize = 8;
    let elements = (bytes / 12).max(64);
    // Short passes are repeated, so that the times of the clock and the barrier do not matter.
    let passes = ((4 << 20) / elements).max(1);
    let barrier = Barrier::new(threads);
    let work = || {
        let (b, c) = (vec![1f32; elements], vec![2f32; elements]);
        let mut a = vec![0f32; elements];
        let mut least = f64::INFINITY;
        for _ in 0..ROUNDS {
            barrier.wait();
            let started = Instant::now();
            for _ in 0..passes {
                pass(&mut a, &b, &c);
                black_box(&mut a);
            }
            barrier.wait();
            least = least.min(started.elapsed().as_secs_f64());
        }
        least
    };
    let seconds = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).fold(0.0, f64::max)
    });
    (12 * elements * passes * threads) as f64 / seconds
}

fn pass(a: &mut [f32], b: &[f32], c: &[f32]) {
    Arch::new().dispatch(|| {
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = b + 3.0 * c;
        }
    });
}
