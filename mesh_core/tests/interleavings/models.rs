//! The models.
#![allow(unsafe_code, reason = "shares cells between threads, which loom watches")]

use std::panic::resume_unwind;

use super::super::comm::{Bell, Stop, Stopped};
use super::super::sync::{Arc, AtomicBool, Ordering, UnsafeCell, thread};
use super::barrier::Barrier;
use super::meeting::{Meeting, Member};
use super::pool::{Pool, Worker};

/// Runs a model in all orders in which threads are interrupted at most so often where they would not have
/// to wait: few bugs take more (Musuvathi and Qadeer, 2007), and all orders would take days.
fn check(interruptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(model);
}

/// Runs `body` on threads, the last of which is this one.
fn on_threads<R: Send + 'static>(
    threads: usize,
    body: impl Fn(usize) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let body = Arc::new(body);
    let others = (1..threads).map(|index| {
        let body = Arc::clone(&body);
        thread::spawn(move || body(index - 1))
    });
    let others: Vec<_> = others.collect();
    let own = body(threads - 1);
    let mut results: Vec<_> = others.into_iter().map(|thread| thread.join().unwrap()).collect();
    results.push(own);
    results
}

/// Memory that members of a group read and write by turns.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: loom finds out whether threads take turns.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as it is shared, so it may be dropped by any thread.
unsafe impl<T> Send for Shared<T> {}

impl<T: Copy> Shared<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn read(&self) -> T {
        // SAFETY: loom fails the test if another thread writes meanwhile.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, value: T) {
        // SAFETY: loom fails the test if another thread reads or writes meanwhile.
        self.0.with_mut(|old| unsafe { *old = value });
    }
}

#[test]
fn a_bell_wakes_whoever_waits() {
    check(4, || {
        let (bell, ready) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
        let value = Arc::new(Shared::new(0));
        let waiting = [(); 2].map(|()| {
            let (bell, ready, value) = (bell.clone(), ready.clone(), value.clone());
            thread::spawn(move || {
                bell.wait(0, || ready.load(Ordering::Acquire));
                value.read()
            })
        });
        value.write(7);
        ready.store(true, Ordering::Release);
        bell.ring();
        assert_eq!(waiting.map(|thread| thread.join().unwrap()), [7, 7]);
    });
}

#[test]
fn a_barrier_is_passed_when_all_have_come_and_what_they_did_is_seen() {
    check(3, || {
        let barrier = Barrier::new(2, 0, &Arc::new(Stop::default()));
        let values = [Shared::new(0), Shared::new(0)];
        on_threads(2, move |index| {
            for round in 1..3 {
                values[index].write(round);
                barrier.wait().unwrap();
                assert_eq!([values[0].read(), values[1].read()], [round; 2]);
                barrier.wait().unwrap();
            }
        });
    });
}

#[test]
fn three_pass_a_barrier() {
    check(2, || {
        let barrier = Barrier::new(3, 0, &Arc::new(Stop::default()));
        let values = [0; 3].map(Shared::new);
        on_threads(3, move |index| {
            values[index].write(index);
            barrier.wait().unwrap();
            assert_eq!(values[(index + 1) % 3].read(), (index + 1) % 3);
        });
    });
}

#[test]
fn poison_wakes_whoever_waits_at_a_barrier() {
    check(3, || {
        let stop = Arc::new(Stop::default());
        let barrier = Arc::new(Barrier::new(3, 0, &stop));
        let waiting = [(); 2].map(|()| {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.wait())
        });
        stop.poison("first".to_owned());
        stop.poison("second".to_owned());
        assert_eq!(waiting.map(|thread| thread.join().unwrap()), [Err(Stopped); 2]);
        assert_eq!(stop.reason(), Some("first".to_owned()));
        assert_eq!(barrier.wait(), Err(Stopped));
    });
}

#[test]
fn a_mailbox_is_filled_again_when_all_have_read_it() {
    check(3, || {
        let meeting = Arc::new(Meeting::new(2, 0, &Arc::new(Stop::default())));
        on_threads(2, move |rank| {
            let mut member = Member::new(Arc::clone(&meeting), rank);
            for round in 0..3_u8 {
                let input = [round, rank as u8];
                // SAFETY: two bytes.
                let open = unsafe { member.open(input.as_ptr(), 2).unwrap() };
                assert!(!open);
                for (peer, at) in member.peers.iter().enumerate() {
                    // SAFETY: every member has shown two bytes.
                    assert_eq!(unsafe { at.cast::<[u8; 2]>().read() }, [round, peer as u8]);
                }
            }
        });
    });
}

#[test]
fn a_buffer_is_its_owners_again_when_all_have_read_it() {
    const LARGE: usize = 1 << 20;
    check(3, || {
        let meeting = Arc::new(Meeting::new(2, 0, &Arc::new(Stop::default())));
        on_threads(2, move |rank| {
            let mut member = Member::new(Arc::clone(&meeting), rank);
            let own = Box::new(Shared::new(rank));
            for round in 0..2 {
                own.write(2 * round + rank);
                // SAFETY: a large input is only shown, and its address good for more than it holds.
                let open = unsafe { member.open((&raw const *own).cast(), LARGE).unwrap() };
                assert!(open);
                for (peer, at) in member.peers.iter().enumerate() {
                    // SAFETY: every member has shown such a cell, and keeps it until all have left.
                    assert_eq!(unsafe { &*at.cast::<Shared<usize>>() }.read(), 2 * round + peer);
                }
                member.close(open).unwrap();
            }
        });
    });
}

#[test]
fn who_fails_ends_a_meeting() {
    check(3, || {
        let stop = Arc::new(Stop::default());
        let meeting = Arc::new(Meeting::new(2, 0, &stop));
        let results = on_threads(2, move |rank| {
            let mut member = Member::new(Arc::clone(&meeting), rank);
            let input = [rank as u8];
            // SAFETY: a byte.
            unsafe { member.open(input.as_ptr(), 1)? };
            if rank == 1 {
                stop.poison("told to".to_owned());
                return Err(Stopped);
            }
            // SAFETY: a byte.
            unsafe { member.open(input.as_ptr(), 1) }
        });
        // Who was to be waited for may be known to be missing one meeting early.
        assert_eq!(results, [Err(Stopped); 2]);
    });
}

/// What a worker panics at.
const BAD: usize = 99;

/// Meets the others, then writes down the job, where its caller reads it.
struct Writer {
    index: usize,
    written: Arc<[Shared<usize>; 2]>,
    barrier: Arc<Barrier>,
}

impl Worker for Writer {
    type Job = usize;

    fn processor(&self) -> usize {
        self.index
    }

    fn run(&mut self, job: &usize) -> Result<(), Stopped> {
        if *job == BAD && self.index == 1 {
            // Without a word of the panic hook's in each of the orders.
            resume_unwind(Box::new("told to"));
        }
        self.barrier.wait()?;
        self.written[self.index].write(*job);
        Ok(())
    }

    fn settle(&mut self) {
        self.written[self.index].write(BAD);
    }

    fn activity(&self, _: &usize) -> String {
        "here".to_owned()
    }
}

fn pool() -> (Pool<usize>, Arc<[Shared<usize>; 2]>) {
    let stop = Arc::new(Stop::default());
    let barrier = Arc::new(Barrier::new(2, 0, &stop));
    let written = Arc::new([0; 2].map(Shared::new));
    let writer = |index| Writer { index, written: written.clone(), barrier: barrier.clone() };
    let pool = Pool::new(vec![writer(0), writer(1)], 0, 0, &stop, &[]).unwrap();
    (pool, written)
}

#[test]
fn a_call_returns_when_every_worker_has_done_its_part() {
    check(2, || {
        let (mut pool, written) = pool();
        for job in 1..3 {
            pool.call(|own| *own = job).unwrap();
            for value in &*written {
                assert_eq!(value.read(), job);
                value.write(0);
            }
        }
    });
}

#[test]
fn a_worker_that_panics_ends_the_call_and_leaves_nobody_running() {
    check(2, || {
        let (mut pool, written) = pool();
        let expected = Err("processor 1 failed here: told to".to_owned());
        assert_eq!(pool.call(|own| *own = BAD), expected);
        for value in &*written {
            assert_eq!(value.read(), BAD);
            value.write(0);
        }
        assert_eq!(pool.call(|own| *own = 1), expected);
        assert_eq!([written[0].read(), written[1].read()], [0; 2]);
    });
}
