//! What the thread of one processor has at hand.
#![allow(unsafe_code, reason = "says that a store is this processor's")]

use std::time::Instant;

use super::super::border::Global;
use super::super::comm::courier::Peers;
use super::super::comm::{Comm, Stop, Stopped};
use super::super::memory::{Buffer, Store};
use super::super::prepare::describe;
use super::super::record::CallTimes;
use super::super::run::Executor;
use super::super::run::numerics::{Inspector, Known, NonFinite};
use super::super::sync::{Arc, Mutex, OnceLock, lock};
use super::pool::{Worker, failure};
use super::process::Process;
use super::work::Work;
use crate::names::Mesh;

/// A call.
#[derive(Default)]
pub(super) struct Job {
    pub(super) function: usize,
    /// In the order of the program's slots, and fitting them.
    pub(super) feeds: Vec<Global>,
    /// Likewise.
    pub(super) fetches: Vec<Global>,
    /// When it began, if it is recorded.
    pub(super) recorded: Option<Instant>,
    /// Whether numbers are looked at.
    pub(super) inspected: bool,
}

/// Where a processor notes what it did: one per function, none before recording is turned on. The
/// processor's while a call runs, the machine's at all other times.
pub(super) type Recording = Arc<Mutex<Vec<CallTimes>>>;

/// What ends a call in which a number went wrong.
pub(super) struct Findings {
    pub(super) mesh: Mesh,
    pub(super) stop: Arc<Stop>,
    /// What was found first.
    pub(super) first: OnceLock<NonFinite>,
}

impl Findings {
    /// Stops everybody, unless somebody else has found something before.
    fn report(&self, found: NonFinite) {
        let reason = found.to_string();
        if self.first.set(found).is_ok() {
            self.stop.poison(reason);
        }
    }
}

pub(super) struct Processor<C> {
    number: usize,
    peers: Peers<C>,
    /// One per function.
    executors: Vec<Executor>,
    scratch: Buffer,
    work: Arc<Work>,
    recording: Recording,
    findings: Arc<Findings>,
    /// One per function, none before numbers are looked at.
    known: Vec<Known>,
    /// Keeps alive what the executors point to.
    _stores: Arc<[Store]>,
}

impl<C: Comm> Processor<C> {
    pub(super) fn new(
        number: usize,
        peers: Peers<C>,
        executors: Vec<Executor>,
        work: Arc<Work>,
        stores: Arc<[Store]>,
        recording: Recording,
        findings: Arc<Findings>,
    ) -> Result<Self, String> {
        let bytes = executors.iter().map(|executor| executor.scratch_bytes).max();
        let scratch = Buffer::zeroed(bytes.unwrap_or(0))?;
        let known = Vec::new();
        let _stores = stores;
        Ok(Self { number, peers, executors, scratch, work, recording, findings, known, _stores })
    }
}

impl<C: Comm + 'static> Worker for Processor<C> {
    type Job = Job;

    fn processor(&self) -> usize {
        self.number
    }

    fn run(&mut self, job: &Job) -> Result<(), Stopped> {
        let executor = &mut self.executors[job.function];
        let mut record = job.recorded.map(|started| {
            let mut record = lock(&self.recording);
            record[job.function].restart(started);
            record
        });
        let times = record.as_mut().map(|record| &mut record[job.function]);
        let scratch = self.scratch.pointer();
        if job.inspected && self.known.is_empty() {
            self.known = self.work.functions.iter().map(|f| Known::of(&f.program.block)).collect();
        }
        let mut found = None;
        let inspector = self.known.get_mut(job.function).filter(|_| job.inspected);
        let inspector = inspector.map(|known| Inspector {
            mesh: &self.findings.mesh,
            processor: self.number,
            program: &self.work.functions[job.function].program,
            block: &self.work.functions[job.function].program.block,
            known,
            found: &mut found,
            of_loop: None,
        });
        // SAFETY: the store lives as long as we do, and while a call runs nobody but this
        // processor uses it. The arrays fit the function's slots (`Job`), `Crew::run` borrows them until
        // the call is over, and the pool gives every processor the same job.
        let done = unsafe {
            executor.run(&mut self.peers, scratch, &job.feeds, &job.fetches, times, inspector)
        };
        if let Some(found) = found {
            self.findings.report(*found);
        } else if let (Err(Stopped), Some(problem)) = (done, self.peers.problem()) {
            self.findings.stop.poison(failure(self, job, &problem));
        }
        done
    }

    fn settle(&mut self) {
        self.peers.settle();
    }

    fn activity(&self, job: &Job) -> String {
        let executor = &self.executors[job.function];
        let program = &self.work.functions[job.function].program;
        format!("in {}", describe(&program.name, &program.block, executor.position))
    }
}

/// None yet.
pub(super) fn findings(process: &Process) -> Arc<Findings> {
    let (mesh, stop) = (process.mesh().clone(), Arc::clone(&process.stop));
    Arc::new(Findings { mesh, stop, first: OnceLock::new() })
}

#[cfg(test)]
mod tests {

    use super::super::comm::Threads;
    use super::super::pool::Pool;
    use super::*;
    use crate::exec::action::Action;
    use crate::exec::comm::Lane;
    use crate::exec::cpu::{Kernel, Memory};
    use crate::exec::prepare::Site;
    use crate::exec::seed::Seed;
    use crate::names::{DType, ProcessMap, ReduceKind};
    use crate::passes::Executable;
    use crate::program::{Builder, Compiled, Extents, Origin, Place, Plan, Scalar};

    struct Fails;

    impl Kernel for Fails {
        unsafe fn run(&self, _: &Memory, _: *mut u8) {
            panic!("out of luck");
        }
    }

    /// `fill`, and `all_reduce`, which is under way beside another `fill` that fails on one processor
    /// if there is one to fail, as the first does if nothing is under way.
    fn pool(mesh: &Mesh, failing: Option<usize>, couriers: bool) -> Pool<Job> {
        let mut p = Builder::new("train", mesh);
        let origin = |op: &str, name: &str, at: &str| {
            let (op, name, at) = (op.to_owned(), name.to_owned(), at.to_owned());
            Origin { op, name, at, ..Origin::default() }
        };
        p.origin(origin("fill", "ones", "main.rs:7"));
        let value = p.fill(Scalar::new(DType::F32, 1.0), Extents::from_slice(&[5000]));
        p.origin(origin("sum", "total", "main.rs:8"));
        let axes: Vec<_> = mesh.axes().collect();
        let total = p.all_reduce(ReduceKind::Sum, &axes, value);
        p.origin(origin("fill", "beside", "main.rs:9"));
        p.fill(Scalar::new(DType::F32, 2.0), Extents::from_slice(&[5000]));
        if couriers {
            p.wait(total);
        }
        let places = (0..3).map(|i| Place::Arena(20032 * i)).collect();
        let plan = Plan { places, arena_bytes: 3 * 20032, bodies: Vec::new() };
        let (mesh_, init) = (mesh.clone(), Compiled::default());
        let functions = vec![Compiled { program: p.finish(), plan }];
        let executable = Executable {
            mesh: mesh_,
            variables: Vec::new(),
            functions,
            init,
            check_numerics: false,
        };
        let work = Arc::new(Work::new(executable));
        let process = Process::new(ProcessMap::new(mesh, 1).unwrap(), 0, 0, Some(couriers));
        let here = process.processors();
        let store =
            || Store { arena: Buffer::zeroed(3 * 20032).unwrap(), variables: Arc::default() };
        let stores: Arc<[_]> = (0..mesh.processors()).map(|_| store()).collect();
        let worker = |processor| {
            let store = &stores[processor];
            let seed = &Seed::new(0);
            let target =
                Site { mesh, processor, here, variables: &[], store, seed, inspects: false };
            let end = |lane| Threads::new(&process, processor, lane);
            let mut peers = Peers::new(end(Lane::Processor), end(Lane::Courier));
            let mut executor = Executor::new(&work.functions[0], &target, &mut peers).unwrap();
            if failing == Some(processor) {
                let index = if couriers { 2 } else { 0 };
                executor.actions[index].1 = Action::Kernel(Box::new(Fails));
            }
            if couriers {
                peers.start(processor, 0, &process.stop).unwrap();
            }
            let (work, stores) = (work.clone(), stores.clone());
            let findings = findings(&process);
            let (own, recording) = (vec![executor], Recording::default());
            Processor::new(processor, peers, own, work, stores, recording, findings).unwrap()
        };
        let workers = (0..mesh.processors()).map(worker).collect();
        Pool::new(workers, Job::default(), 0, &process.stop, &[]).unwrap()
    }

    #[test]
    fn a_failed_step_is_named_and_nobody_hangs() {
        let mesh: Mesh = "x:2;y:2".parse().unwrap();
        let steps = [
            (false, "step 0 of `train` (generate, for fill `ones` at main.rs:7)"),
            (true, "step 2 of `train` (generate, for fill `beside` at main.rs:9)"),
        ];
        for (couriers, step) in steps {
            pool(&mesh, None, couriers).call(|_| {}).unwrap();
            for round in 0..100 {
                let failing = round % 4;
                let mut pool = pool(&mesh, Some(failing), couriers);
                let expected = format!("processor {failing} failed in {step}: out of luck");
                for _ in 0..2 {
                    assert_eq!(pool.call(|_| {}), Err(expected.clone()));
                }
                drop(pool);
            }
        }
    }
}
