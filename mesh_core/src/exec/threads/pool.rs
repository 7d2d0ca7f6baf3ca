//! One thread per processor: the first is the caller's own, the others wait for calls.

use core_affinity::CoreId;

use super::super::comm::{Bell, Stop, Stopped, caught};
use super::super::sync::thread::{self, JoinHandle};
use super::super::sync::{
    Arc, AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering, PoisonError, RwLock,
};

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
        self.stop.reason().map_or(Ok(()), Err)
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
