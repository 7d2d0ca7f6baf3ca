use std::panic::{panic_any, resume_unwind};
use std::time::Duration;

use super::super::comm::{Stop, Stopped};
use super::super::sync::{Arc, AtomicUsize, Ordering, thread};
use super::barrier::Barrier;
use super::pool::{Pool, Worker};

/// What a worker that is told to panics with.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Panic {
    Text,
    /// A value that panics when it is dropped, with another that does so, too.
    Bomb,
    /// Text; asked what it was doing, the worker panics again, with a bomb.
    AtNothing,
}

/// Panics when it is dropped, so often.
struct Bomb(usize);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            // Writes nothing.
            resume_unwind(Box::new(Self(self.0 - 1)));
        }
    }
}

/// Worker `index` meets the others, and panics when it is told to. The others take their time
/// before they are done.
struct Meeter {
    index: usize,
    barrier: Arc<Barrier>,
    /// Calls done.
    calls: Arc<AtomicUsize>,
    /// Workers that run.
    running: Arc<AtomicUsize>,
}

impl Worker for Meeter {
    type Job = Option<(usize, Panic)>;

    fn processor(&self) -> usize {
        self.index
    }

    fn run(&mut self, job: &Self::Job) -> Result<(), Stopped> {
        self.barrier.wait()?;
        match *job {
            Some((index, Panic::Bomb)) if index == self.index => panic_any(Bomb(2)),
            Some((index, _)) if index == self.index => panic!("told to"),
            Some(_) => {
                self.running.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(3));
                self.running.fetch_sub(1, Ordering::Relaxed);
            }
            None => {}
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.barrier.wait()
    }

    fn activity(&self, job: &Self::Job) -> String {
        if matches!(job, Some((_, Panic::AtNothing))) {
            panic_any(Bomb(2));
        }
        "while meeting".to_owned()
    }
}

type Meeters = (Pool<Option<(usize, Panic)>>, [Arc<AtomicUsize>; 2]);

fn pool(workers: usize) -> Meeters {
    let stop = Arc::new(Stop::default());
    let barrier = Arc::new(Barrier::new(workers, 10, &stop));
    let counts = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let meeter = |index| {
        let [calls, running] = counts.clone();
        Meeter { index, barrier: Arc::clone(&barrier), calls, running }
    };
    let pool = Pool::new((0..workers).map(meeter).collect(), None, 10, &stop, &[]).unwrap();
    (pool, counts)
}

#[test]
fn every_worker_does_every_call() {
    let (mut pool, [calls, _]) = pool(5);
    for round in 1..=200 {
        pool.call(|job| *job = None).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 5 * round);
    }
}

#[test]
fn a_panic_ends_the_pool_and_neither_hangs_anybody_nor_leaves_anybody_running() {
    for round in 0..120 {
        let (mut pool, [_, running]) = pool(4);
        pool.call(|job| *job = None).unwrap();
        let panicking = round % 4;
        let panic = [Panic::Text, Panic::Bomb, Panic::AtNothing][round % 3];
        let problem = match panic {
            Panic::Text => " while meeting: told to",
            Panic::Bomb => " while meeting: a panic without a message",
            Panic::AtNothing => ": told to",
        };
        let expected = format!("processor {panicking} failed{problem}");
        let job = Some((panicking, panic));
        assert_eq!(pool.call(|own| *own = job), Err(expected.clone()), "{job:?}");
        assert_eq!(running.load(Ordering::Relaxed), 0, "{job:?}");
        assert_eq!(pool.call(|own| *own = None), Err(expected));
        drop(pool);
    }
}
