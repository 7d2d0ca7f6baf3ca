//! One thread per processor: the first is the caller's own, the others wait for calls.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};

use core_affinity::CoreId;

use super::super::caught::caught;
use super::super::comm::Stopped;
use super::barrier::{Bell, Stop};

/// What a thread of the pool does.
pub(super) trait Worker: Send + 'static {
    /// What it is told.
    type Job: Send + Sync + 'static;

    /// What people call it by.
    fn processor(&self) -> usize;

    /// Does its part of a job.
    fn run(&mut self, job: &Self::Job) -> Result<(), Stopped>;

    /// Lets go of the processor's memory, everybody having been stopped.
    fn settle(&mut self) {}

    /// What it was doing when [`run`](Self::run) failed.
    fn activity(&self, job: &Self::Job) -> String;
}

struct Shared<J> {
    spin: u32,
    stop: Arc<Stop>,
    job: RwLock<J>,
    /// Counts calls.
    calls: AtomicU32,
    closed: AtomicBool,
    start: Bell,
    /// Workers that have not done their part of the present call.
    busy: AtomicUsize,
    finish: Bell,
}

/// Workers that each do their part of every call.
pub(super) struct Pool<J> {
    shared: Arc<Shared<J>>,
    /// Works on the thread that calls, which has nothing else to do meanwhile: waking another for it
    /// and being woken by it takes as long as a small step. Nobody, if workers are kept on cores.
    own: Option<Mutex<Box<dyn Worker<Job = J>>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + Sync + 'static> Pool<J> {
    /// Starts a thread for each worker but the first, or for each if there are cores to keep them on;
    /// `spin` is how often it looks for the next call before it sleeps.
    pub(super) fn new<W: Worker<Job = J>>(
        workers: Vec<W>,
        job: J,
        spin: u32,
        stop: &Arc<Stop>,
        cores: &[CoreId],
    ) -> Result<Self, String> {
        let shared = Shared {
            spin,
            stop: Arc::clone(stop),
            job: RwLock::new(job),
            calls: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            start: Bell::default(),
            busy: AtomicUsize::new(0),
            finish: Bell::default(),
        };
        let mut workers = workers.into_iter();
        let own = if cores.is_empty() { workers.next() } else { None };
        let own = own.map(|worker| Mutex::new(Box::new(worker) as Box<dyn Worker<Job = J>>));
        // From here on an early return closes the pool, which ends the threads that run already.
        let mut pool = Self { shared: Arc::new(shared), own, threads: Vec::new() };
        for (index, worker) in workers.enumerate() {
            let (shared, core) = (Arc::clone(&pool.shared), cores.get(index).copied());
            let processor = worker.processor();
            let thread = thread::Builder::new()
                .name(format!("processor-{processor}"))
                .spawn(move || {
                    // Where it cannot be kept there, it runs wherever the system lets it.
                    core.map(core_affinity::set_for_current);
                    // Nobody is there to be told that the worker panicked when it was dropped.
                    let _ = caught(|| work(worker, &shared));
                })
                .map_err(|error| format!("cannot start processor {processor}: {error}"))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Has every worker do the job that `set` describes, and waits for all of them, whatever
    /// happens.
    pub(super) fn call(&mut self, set: impl FnOnce(&mut J)) -> Result<(), String> {
        let shared = &*self.shared;
        shared.check()?;
        set(&mut shared.job.write().unwrap_or_else(PoisonError::into_inner));
        let own = self.own.as_mut();
        shared.busy.store(self.threads.len() + usize::from(own.is_some()), Ordering::Relaxed);
        shared.calls.fetch_add(1, Ordering::Release);
        shared.start.ring();
        if let Some(worker) = own {
            let worker = worker.get_mut().unwrap_or_else(PoisonError::into_inner);
            shared.do_part(&mut **worker);
        }
        shared.finish.wait(shared.spin, || shared.busy.load(Ordering::Acquire) == 0);
        shared.check()
    }
}

impl<J> Drop for Pool<J> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.start.ring();
        for thread in self.threads.drain(..) {
            // Panics were caught inside.
            let _ = thread.join();
        }
    }
}

impl<J> Shared<J> {
    fn check(&self) -> Result<(), String> {
        self.stop.reason().map_or(Ok(()), |reason| Err(reason.to_owned()))
    }

    /// Has a worker do its part of the present call. One that panicked is not used again: the stop
    /// sees to that. Never unwinds: until everybody is done, others may use what the caller or the
    /// worker would free.
    fn do_part(&self, worker: &mut (impl Worker<Job = J> + ?Sized)) {
        let job = self.job.read().unwrap_or_else(PoisonError::into_inner);
        let done = caught(|| worker.run(&job));
        if let Err(problem) = &done {
            let named = caught(|| failure(worker, &job, problem));
            let unnamed = |_| format!("processor {} failed: {problem}", worker.processor());
            self.stop.poison(named.unwrap_or_else(unnamed));
        }
        if !matches!(done, Ok(Ok(()))) {
            worker.settle();
        }
        drop(job);
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish.ring();
        }
    }
}

fn work<W: Worker>(mut worker: W, shared: &Shared<W::Job>) {
    let mut done: u32 = 0;
    loop {
        let called = || shared.calls.load(Ordering::Acquire) != done;
        let spin = if done == 0 { 0 } else { shared.spin };
        shared.start.wait(spin, || called() || shared.closed.load(Ordering::Acquire));
        if !called() {
            return;
        }
        done = done.wrapping_add(1);
        shared.do_part(&mut worker);
    }
}

/// For people: who failed, at what, and why.
pub(super) fn failure<J>(
    worker: &(impl Worker<Job = J> + ?Sized),
    job: &J,
    problem: &str,
) -> String {
    format!("processor {} failed {}: {problem}", worker.processor(), worker.activity(job))
}

#[cfg(test)]
mod tests {
    use std::panic::{panic_any, resume_unwind};
    use std::time::{Duration, Instant};

    use super::super::barrier::{Barrier, ThreadBarrier};
    use super::*;

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
        barrier: Arc<ThreadBarrier>,
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
            self.barrier.wait(0)?;
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
            self.barrier.wait(0)
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
        let barrier = Arc::new(ThreadBarrier::new(workers, 10, &stop));
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
            let started = Instant::now();
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
            assert!(started.elapsed() < Duration::from_secs(1));
        }
    }
}
