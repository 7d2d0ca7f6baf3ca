//! The processors of this process at work.

use std::time::Instant;
use std::{ptr, slice};

use core_affinity::CoreId;

use super::super::addressable::{Addressable, fits};
use super::super::backend::Failure;
use super::super::border::Global;
use super::super::comm::courier::Peers;
use super::super::comm::{Comm, Lane};
use super::super::memory::{Buffer, Store};
use super::super::prepare::Site;
use super::super::record::CallTimes;
use super::super::run::Executor;
use super::super::seed::Seed;
use super::super::sync::{Arc, lock};
use super::pool::Pool;
use super::process::Process;
use super::processor::{Findings, Job, Processor, Recording, findings};
use super::work::Work;
use crate::array::{Array, ArrayRef};
use crate::program::{Compiled, Place, Program, Value};

/// The processors of this process: their threads, memory and prepared functions. What is asked of a
/// processor that is elsewhere is not there, or not done.
///
/// Memory is the processors' while [`run`](Self::run) runs, which is the crew's only method that
/// needs it whole; at all other times it is the crew's. Several crews may have the same variables: then
/// none of them writes any.
pub(crate) struct Crew {
    pub(in crate::exec) process: Arc<Process>,
    pool: Pool<Job>,
    /// One per processor, in the process's order.
    stores: Arc<[Store]>,
    work: Arc<Work>,
    /// One per function.
    addressable: Vec<Addressable>,
    seed: Seed,
    /// One per processor.
    recordings: Vec<Recording>,
    records: bool,
    findings: Arc<Findings>,
    /// The function of the last call, if it was recorded.
    recorded: Option<usize>,
    /// Held by each crew with these variables; goes after the processors' threads have ended.
    sharers: Arc<()>,
}

impl Crew {
    /// Prepares every function for every processor of the process, which meets others by the `comm`s
    /// made for its lanes; they are kept on these cores, if any. Variables are zeros. The error is for
    /// people.
    pub(in crate::exec) fn new<C: Comm + 'static>(
        process: &Arc<Process>,
        work: Work,
        seed: u64,
        pins: &[CoreId],
        comm: impl Fn(usize, Lane) -> Result<C, String>,
    ) -> Result<Self, String> {
        let store = |&processor: &usize| work.store(process.mesh(), processor);
        let stores = process.processors().iter().map(store).collect::<Result<_, _>>()?;
        Self::on(process, Arc::new(work), stores, seed, pins, comm)
    }

    /// Another crew on the same variables, with threads and memory of its own for all else. The process
    /// is another one with the same processors.
    pub(in crate::exec) fn share<C: Comm + 'static>(
        &self,
        process: &Arc<Process>,
        comm: impl Fn(usize, Lane) -> Result<C, String>,
    ) -> Result<Self, String> {
        let store = |store: &Store| {
            let arena = Buffer::zeroed(self.work.arena_bytes)?;
            Ok(Store { arena, variables: Arc::clone(&store.variables) })
        };
        let stores = self.stores.iter().map(store).collect::<Result<_, String>>()?;
        let mut crew =
            Self::on(process, Arc::clone(&self.work), stores, self.seed.get(), &[], comm)?;
        crew.sharers = Arc::clone(&self.sharers);
        Ok(crew)
    }

    fn on<C: Comm + 'static>(
        process: &Arc<Process>,
        work: Arc<Work>,
        stores: Arc<[Store]>,
        seed: u64,
        pins: &[CoreId],
        comm: impl Fn(usize, Lane) -> Result<C, String>,
    ) -> Result<Self, String> {
        let (mesh, here, seed) = (process.mesh(), process.processors(), Seed::new(seed));
        let Work { variables, functions, inspects, .. } = &*work;
        let inspects = *inspects;
        let addressable = functions.iter().map(|f| Addressable::new(&f.program, mesh, here));
        let addressable = addressable.collect();
        let findings = findings(process);
        let recordings: Vec<_> = here.iter().map(|_| Recording::default()).collect();
        let worker = |(index, &processor)| {
            let store = &stores[index];
            let seed = &seed;
            let target = Site { mesh, processor, here, variables, store, seed, inspects };
            let end = |lane| comm(processor, lane);
            let mut peers = Peers::new(end(Lane::Processor)?, end(Lane::Courier)?);
            let executors = functions.iter().map(|f| Executor::new(f, &target, &mut peers));
            let executors = executors.collect::<Result<Vec<_>, _>>()?;
            if process.couriers {
                peers.start(processor, process.spin(0), &process.stop)?;
            }
            let (work, stores) = (Arc::clone(&work), Arc::clone(&stores));
            let (recording, findings) = (Arc::clone(&recordings[index]), Arc::clone(&findings));
            Processor::new(processor, peers, executors, work, stores, recording, findings)
        };
        let workers = here.iter().enumerate().map(worker).collect::<Result<Vec<_>, String>>()?;
        // With each on a core of its own the caller's thread wants one as well.
        let spin = process.spin(usize::from(!pins.is_empty()));
        let pool = Pool::new(workers, Job::default(), spin, &process.stop, pins)?;
        Ok(Self {
            process: Arc::clone(process),
            pool,
            stores,
            work,
            addressable,
            seed,
            recordings,
            records: false,
            findings,
            recorded: None,
            sharers: Arc::default(),
        })
    }

    /// That nobody else has these variables.
    fn unshared(&mut self, what: impl FnOnce(&Work) -> String) -> Result<(), Failure> {
        if Arc::get_mut(&mut self.sharers).is_some() {
            return Ok(());
        }
        let others = Arc::strong_count(&self.sharers) - 1;
        let what = what(&self.work);
        let sessions = if others == 1 { "another session shares" } else { "other sessions share" };
        let many = if others == 1 { String::new() } else { format!("{others} ") };
        Err(Failure::Refused(format!(
            "{what}, which {many}{sessions}: no session writes a variable while several have it"
        )))
    }

    pub(in crate::exec) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Bytes of a processor's values of the function that runs.
    pub(super) fn arena_bytes(&self) -> usize {
        self.work.arena_bytes
    }

    pub(in crate::exec) fn record(&mut self, on: bool) {
        (self.records, self.recorded) = (on, None);
        for recording in &self.recordings {
            let mut times = lock(recording);
            let functions = self.work.functions.iter().filter(|_| on);
            *times = functions.map(|function| CallTimes::of(&function.program.block)).collect();
        }
    }

    pub(in crate::exec) fn recorded(&self, processor: usize) -> Option<(&Program, CallTimes)> {
        let function = self.recorded?;
        let recording = &self.recordings[self.process.index(processor)?];
        let times = lock(recording);
        Some((&self.work.functions[function].program, times.get(function)?.clone()))
    }

    #[cfg(feature = "mpi")]
    pub(in crate::exec) fn functions(&self) -> &[Compiled] {
        &self.work.functions
    }

    /// What a function is called, for people.
    #[cfg(feature = "mpi")]
    pub(in crate::exec) fn function_name(&self, function: usize) -> &str {
        self.work.functions.get(function).map_or("?", |compiled| &compiled.program.name)
    }

    /// Runs a function on every processor of this process, if the arrays fit its slots.
    pub(in crate::exec) fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure> {
        let written = self.work.writes.get(function).copied().flatten();
        if let Some(variable) = written {
            self.unshared(|work| work.written(function, variable))?;
        }
        let known = self.work.functions.get(function).zip(self.addressable.get(function));
        let (Compiled { program, .. }, addressable) =
            known.ok_or_else(|| Failure::Refused(format!("there is no function {function}")))?;
        fits(program, addressable, feeds, fetches, probes).map_err(Failure::Refused)?;
        let recorded = self.records.then(Instant::now);
        self.recorded = recorded.map(|_| function);
        let inspects = self.work.inspects;
        let called = self.pool.call(|job| {
            job.function = function;
            job.recorded = recorded;
            job.inspected = inspects;
            job.feeds.clear();
            job.feeds.extend(addressable.globals(program, feeds));
            job.fetches.clear();
            job.fetches.extend(fetches.iter_mut().chain(probes).map(Global::of_mut));
        });
        called.map_err(|reason| match self.findings.first.get() {
            Some(found) => Failure::NonFinite(Box::new(found.clone())),
            None => Failure::Stopped(reason),
        })
    }

    /// The type of a processor's slice of a variable.
    pub(in crate::exec) fn variable(&self, variable: usize) -> Result<&Value, Failure> {
        let known = self.work.slices.get(variable);
        known.ok_or_else(|| Failure::Refused(format!("there is no variable {variable}")))
    }

    /// The bytes of a processor's slice of a variable, which it holds; `None` if it is elsewhere.
    pub(in crate::exec) fn slice(
        &self,
        processor: usize,
        variable: usize,
    ) -> Result<Option<&[u8]>, Failure> {
        let bytes = self.variable(variable)?.bytes();
        let Some(index) = self.process.index(processor) else { return Ok(None) };
        let buffer = &self.stores[index].variables[variable];
        // SAFETY: zeroed or written, this long; no call runs while the crew is borrowed.
        Ok(Some(unsafe { slice::from_raw_parts(buffer.pointer(), bytes) }))
    }

    /// Sets the bytes of a processor's slice of a variable, which it holds; does nothing if it is
    /// elsewhere.
    pub(in crate::exec) fn set_slice(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let value = self.variable(variable)?;
        if bytes.len() != value.bytes() {
            let problem = format!("{} bytes are no slice {value}", bytes.len());
            return Err(Failure::Refused(problem));
        }
        self.unshared(|work| {
            format!("a value is set of variable `{}`", work.variables[variable].name)
        })?;
        let Some(index) = self.process.index(processor) else { return Ok(()) };
        let buffer = &self.stores[index].variables[variable];
        // SAFETY: this long; no call runs while the crew is borrowed.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.pointer(), bytes.len()) };
        Ok(())
    }

    /// Bytes of a processor's slice of a fetch or probe.
    pub(in crate::exec) fn fetched_bytes(
        &self,
        function: usize,
        fetch: usize,
    ) -> Result<usize, Failure> {
        let program = self.work.functions.get(function).map(|compiled| &compiled.program);
        let result =
            program.and_then(|program| Some((program, *program.block.results.get(fetch)?)));
        let bytes = result.map(|(program, result)| program.value(result).bytes());
        bytes.ok_or_else(|| Failure::Refused(format!("function {function} has no fetch {fetch}")))
    }

    /// The bytes of a processor's slice of a fetch or probe, as the last call left them; `None` if the
    /// processor is elsewhere.
    pub(in crate::exec) fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Option<&[u8]>, Failure> {
        let bytes = self.fetched_bytes(function, fetch)?;
        let Compiled { program, plan } = &self.work.functions[function];
        let Some(index) = self.process.index(processor) else { return Ok(None) };
        let store = &self.stores[index];
        let pointer = match plan.places[program.block.results[fetch].index()] {
            Place::Arena(offset) => store.arena.pointer().wrapping_add(offset),
            Place::Variable(variable) => store.variables[variable.index()].pointer(),
            // No fetch of a function is in a loop.
            Place::Param(_) | Place::Stacked(_) => return Ok(None),
        };
        // SAFETY: preparing found the value's place to be this large, in memory that is zeroed
        // or written; no call runs while the crew is borrowed.
        Ok(Some(unsafe { slice::from_raw_parts(pointer, bytes) }))
    }
}
