//! The processors of this process at work.

use std::time::Instant;
use std::{ptr, slice};

use core_affinity::CoreId;

use super::super::addressable::Addressable;
use super::super::border::Global;
use super::super::comm::courier::Peers;
use super::super::comm::{Comm, Lane};
use super::super::executor::Executor;
use super::super::machine::{border, expect_bytes};
use super::super::memory::{Buffer, Store};
use super::super::numerics::NonFinite;
use super::super::prepare::{Target, variable_bytes};
use super::super::record::CallTimes;
use super::super::seed::Seed;
use super::super::sync::{Arc, lock};
use super::pool::Pool;
use super::process::Process;
use super::processor::{Findings, Job, Processor, Recording, findings};
use crate::array::{Array, ArrayRef};
use crate::program::{Compiled, Place, Value, VariableType, owns};

/// The processors of this process: their threads, memory and prepared functions. What is asked of a
/// processor that is elsewhere is not there, or not done.
///
/// Memory is the processors' while [`run`](Self::run) runs, which is the crew's only method that
/// needs it whole; at all other times it is the crew's.
pub(crate) struct Crew {
    pub(in crate::exec) process: Arc<Process>,
    pool: Pool<Job>,
    /// One per processor, in the process's order.
    stores: Arc<[Store]>,
    functions: Arc<[Compiled]>,
    /// One per function.
    addressable: Vec<Addressable>,
    variables: Vec<Value>,
    seed: Seed,
    /// One per processor.
    recordings: Vec<Recording>,
    records: bool,
    inspects: bool,
    findings: Arc<Findings>,
    /// The function of the last call, if it was recorded.
    recorded: Option<usize>,
}

impl Crew {
    /// Prepares every function for every processor of the process, which meets others by the `comm`s
    /// made for its lanes; they are kept on these cores, if any. Variables are zeros. The error is for
    /// people.
    pub(in crate::exec) fn new<C: Comm + 'static>(
        process: &Arc<Process>,
        variables: &[VariableType],
        functions: Vec<Compiled>,
        seed: u64,
        pins: &[CoreId],
        comm: impl Fn(usize, Lane) -> Result<C, String>,
    ) -> Result<Self, String> {
        let (mesh, here, seed) = (process.mesh(), process.processors(), Seed::new(seed));
        let arena = functions.iter().map(|function| function.plan.arena_bytes).max().unwrap_or(0);
        let store = |&processor: &usize| {
            let bytes = |v: &VariableType| match owns(mesh, processor, &v.owners) {
                true => variable_bytes(v),
                false => 0,
            };
            let buffers = variables.iter().map(|v| Buffer::zeroed(bytes(v)));
            let variables = buffers.collect::<Result<_, _>>()?;
            Ok(Store { arena: Buffer::zeroed(arena)?, variables })
        };
        let stores = here.iter().map(store).collect::<Result<Arc<[_]>, String>>()?;
        let functions: Arc<[Compiled]> = functions.into();
        let addressable = functions.iter().map(|f| Addressable::new(&f.program, mesh, here));
        let addressable = addressable.collect();
        let findings = findings(process);
        let recordings: Vec<_> = here.iter().map(|_| Recording::default()).collect();
        let worker = |(index, &processor)| {
            let store = &stores[index];
            let target = Target { mesh, processor, here, variables, store, seed: &seed };
            let end = |lane| comm(processor, lane);
            let mut peers = Peers::new(end(Lane::Processor)?, end(Lane::Courier)?);
            let executors = functions.iter().map(|f| Executor::new(f, &target, &mut peers));
            let executors = executors.collect::<Result<Vec<_>, _>>()?;
            if process.couriers {
                peers.start(processor, process.spin(0), &process.stop)?;
            }
            let (functions, stores) = (Arc::clone(&functions), Arc::clone(&stores));
            let (recording, findings) = (Arc::clone(&recordings[index]), Arc::clone(&findings));
            Processor::new(processor, peers, executors, functions, stores, recording, findings)
        };
        let workers = here.iter().enumerate().map(worker).collect::<Result<Vec<_>, String>>()?;
        // With each on a core of its own the caller's thread wants one as well.
        let spin = process.spin(usize::from(!pins.is_empty()));
        let pool = Pool::new(workers, Job::default(), spin, &process.stop, pins)?;
        let values = variables.iter().map(|v| Value::new(v.dtype, v.extents.iter().copied()));
        Ok(Self {
            process: Arc::clone(process),
            pool,
            stores,
            functions,
            addressable,
            variables: values.collect(),
            seed,
            recordings,
            records: false,
            inspects: false,
            findings,
            recorded: None,
        })
    }

    pub(in crate::exec) fn seed(&self) -> &Seed {
        &self.seed
    }

    pub(in crate::exec) fn inspect(&mut self, on: bool) {
        self.inspects = on;
    }

    pub(in crate::exec) fn found(&self) -> Option<&NonFinite> {
        self.findings.first.get()
    }

    pub(in crate::exec) fn record(&mut self, on: bool) {
        (self.records, self.recorded) = (on, None);
        for recording in &self.recordings {
            let mut times = lock(recording);
            let functions = self.functions.iter().filter(|_| on);
            *times = functions.map(|function| CallTimes::of(&function.program)).collect();
        }
    }

    pub(in crate::exec) fn recorded(&self, processor: usize) -> Option<(&Compiled, CallTimes)> {
        let function = self.recorded?;
        let recording = &self.recordings[self.process.index(processor)?];
        let times = lock(recording);
        Some((&self.functions[function], times.get(function)?.clone()))
    }

    pub(in crate::exec) fn functions(&self) -> &[Compiled] {
        &self.functions
    }

    pub(in crate::exec) fn addressable(&self, function: usize) -> &Addressable {
        &self.addressable[function]
    }

    pub(in crate::exec) fn variable(&self, variable: usize) -> &Value {
        &self.variables[variable]
    }

    /// Runs a function on every processor, with arrays that fit its slots.
    ///
    /// # Safety
    ///
    /// [`fits`](super::super::machine::fits) says that they do.
    pub(in crate::exec) unsafe fn run(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        outputs: &mut [Array],
        shown: &mut [Array],
    ) -> Result<(), String> {
        let recorded = self.records.then(Instant::now);
        self.recorded = recorded.map(|_| function);
        let inspects = self.inspects;
        let (program, addressable) =
            (&self.functions[function].program, &self.addressable[function]);
        self.pool.call(|job| {
            job.function = function;
            job.recorded = recorded;
            job.inspected = inspects;
            job.feeds.clear();
            job.feeds.extend(addressable.globals(program, feeds));
            job.fetches.clear();
            job.fetches.extend(outputs.iter_mut().chain(shown).map(Global::of_mut));
        })
    }

    /// Sets a processor's slice of a variable to what an array has from `begin` on.
    pub(in crate::exec) fn write(
        &mut self,
        processor: usize,
        variable: usize,
        begin: &[usize],
        array: &ArrayRef<'_>,
    ) -> Result<(), String> {
        let border = border(&self.variables[variable], begin, array.dtype(), array.shape())?;
        let Some(index) = self.process.index(processor) else { return Ok(()) };
        let slice = self.stores[index].variables[variable].pointer();
        // SAFETY: the slice lies within the array; no call is running.
        unsafe { border.cut(&Global::of(array), slice) };
        Ok(())
    }

    /// The bytes of a processor's slice of a variable, which it holds.
    pub(in crate::exec) fn variable_bytes(
        &self,
        processor: usize,
        variable: usize,
    ) -> Option<&[u8]> {
        let buffer = &self.stores[self.process.index(processor)?].variables[variable];
        let bytes = self.variables[variable].bytes();
        // SAFETY: zeroed or written, this long; no call runs while the crew is borrowed.
        Some(unsafe { slice::from_raw_parts(buffer.pointer(), bytes) })
    }

    /// Sets the bytes of a processor's slice of a variable, which it holds.
    pub(in crate::exec) fn set_variable_bytes(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), String> {
        expect_bytes(&self.variables[variable], bytes)?;
        let Some(index) = self.process.index(processor) else { return Ok(()) };
        let buffer = &self.stores[index].variables[variable];
        // SAFETY: this long; no call runs while the crew is borrowed.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.pointer(), bytes.len()) };
        Ok(())
    }

    /// The bytes of a processor's slice of a fetch, as the last call left them.
    pub(in crate::exec) fn fetch_bytes(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Option<&[u8]> {
        let Compiled { program, plan } = &self.functions[function];
        let value = program.fetches[fetch].value;
        let store = &self.stores[self.process.index(processor)?];
        let pointer = match plan.places[value.index()] {
            Place::Arena(offset) => store.arena.pointer().wrapping_add(offset),
            Place::Variable(variable) => store.variables[variable.index()].pointer(),
            // No fetch of a function is in a loop.
            Place::Fed(_) | Place::Stacked(_) => return None,
        };
        // SAFETY: preparing found the value's place to be this large, in memory that is zeroed
        // or written; no call runs while the crew is borrowed.
        Some(unsafe { slice::from_raw_parts(pointer, program.value(value).bytes()) })
    }
}
