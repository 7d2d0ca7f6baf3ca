//! A mesh whose processors are threads of this process.
#![allow(unsafe_code, reason = "reaches into the processors' memory between calls")]

mod barrier;
mod comm;
mod meeting;
mod pool;
mod processor;

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use std::{ptr, slice, thread};

use core_affinity::CoreId;

pub(super) use self::barrier::{Bell, Stop, lock};
pub(super) use self::comm::Threads;
use self::meeting::World;
use self::pool::Pool;
pub(super) use self::pool::message;
use self::processor::{Book, Findings, Job, Processor, findings};
use super::border::Global;
use super::courier::Peers;
use super::executor::Executor;
use super::machine::{Machine, border, expect_bytes, fits};
use super::memory::{Buffer, Store};
use super::numerics::NonFinite;
use super::prepare::{Target, variable_bytes};
use super::record::CallTimes;
use super::seed::Seed;
use crate::array::{Array, ArrayRef};
use crate::names::Mesh;
use crate::program::{Compiled, Place, Value, VariableType, owns};

/// How often a thread looks before it lets others run, when it has a core of its own: a few
/// microseconds, for the system may have put two threads on one core all the same.
const SPIN: u32 = 100;

/// How many cores there are for this process.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Cores by number; none where the system does not say what cores there are.
fn core_ids(numbers: &[usize]) -> Result<Vec<CoreId>, String> {
    let known = core_affinity::get_core_ids().unwrap_or_default();
    let find = |number: &usize| {
        known.iter().find(|core| core.id == *number).copied().ok_or_else(|| {
            let known: Vec<_> = known.iter().map(|core| core.id.to_string()).collect();
            format!("there is no core {number} to run on; there are {}", known.join(", "))
        })
    };
    if known.is_empty() { Ok(Vec::new()) } else { numbers.iter().map(find).collect() }
}

/// The threads, memory and prepared functions of a module.
///
/// Memory is the processors' while [`call`](Self::call) runs, which is the machine's only method
/// that needs it whole; at all other times it is the machine's.
pub(crate) struct ThreadMachine {
    pool: Pool<Job>,
    stores: Arc<[Store]>,
    functions: Arc<[Compiled]>,
    variables: Vec<Value>,
    seed: Seed,
    /// One per processor.
    books: Vec<Book>,
    records: bool,
    inspects: bool,
    findings: Arc<Findings>,
    /// The function of the last call, if it was recorded.
    recorded: Option<usize>,
}

impl ThreadMachine {
    /// Prepares every function for every processor of the mesh, which are kept on the cores of these
    /// numbers, if any. Variables are zeros. The error is for people.
    pub(crate) fn new(
        mesh: &Mesh,
        variables: &[VariableType],
        functions: Vec<Compiled>,
        seed: u64,
        pins: &[usize],
    ) -> Result<Self, String> {
        let couriers = cores() >= 2 * mesh.processors();
        Self::with_couriers(mesh, variables, functions, seed, pins, couriers)
    }

    /// As [`new`](Self::new), `couriers` saying whether collectives that are begun run beside
    /// computation.
    pub(crate) fn with_couriers(
        mesh: &Mesh,
        variables: &[VariableType],
        functions: Vec<Compiled>,
        seed: u64,
        pins: &[usize],
        couriers: bool,
    ) -> Result<Self, String> {
        let cores = cores();
        let spin = |threads| if threads <= cores { SPIN } else { 0 };
        let (pins, seed) = (core_ids(pins)?, Seed::new(seed));
        let stop = Arc::new(Stop::default());
        let threads = mesh.processors() * if couriers { 2 } else { 1 };
        let world = World::new(mesh, spin(threads), &stop);
        let couriers_world = World::new(mesh, spin(threads), &stop);
        let arena = functions.iter().map(|function| function.plan.arena_bytes).max().unwrap_or(0);
        let store = |processor| {
            let bytes = |v: &VariableType| match owns(mesh, processor, &v.owners) {
                true => variable_bytes(v),
                false => 0,
            };
            let buffers = variables.iter().map(|v| Buffer::zeroed(bytes(v)));
            let variables = buffers.collect::<Result<_, _>>()?;
            Ok(Store { arena: Buffer::zeroed(arena)?, variables })
        };
        let stores: Result<Arc<[Store]>, String> = (0..mesh.processors()).map(store).collect();
        let stores = stores?;
        let functions: Arc<[Compiled]> = functions.into();
        let findings = findings(mesh, &stop);
        let books: Vec<Book> = stores.iter().map(|_| Book::default()).collect();
        let worker = |(processor, store)| {
            let target = Target { mesh, processor, variables, store, seed: &seed, private: false };
            let comm = |world| Threads::new(world, processor);
            let mut peers = Peers::new(comm(&world), comm(&couriers_world));
            let executors = functions.iter().map(|f| Executor::new(f, &target, &mut peers));
            let executors = executors.collect::<Result<Vec<_>, _>>()?;
            let (functions, stores) = (Arc::clone(&functions), Arc::clone(&stores));
            let (book, findings) = (Arc::clone(&books[processor]), Arc::clone(&findings));
            if couriers {
                peers.start(processor, spin(threads), &stop)?;
            }
            Processor::new(processor, peers, executors, functions, stores, book, findings)
        };
        let workers: Result<Vec<_>, String> = stores.iter().enumerate().map(worker).collect();
        // Between calls the caller's thread wants a core as well.
        let pool = Pool::new(workers?, Job::default(), spin(mesh.processors() + 1), &stop, &pins)?;
        let variables =
            variables.iter().map(|v| Value::new(v.dtype, v.extents.iter().copied())).collect();
        let (records, inspects, recorded) = (false, false, None);
        Ok(Self {
            pool,
            stores,
            functions,
            variables,
            seed,
            books,
            records,
            inspects,
            findings,
            recorded,
        })
    }
}

impl Machine for ThreadMachine {
    fn rank(&self) -> usize {
        0
    }

    fn any(&self, here: bool) -> bool {
        here
    }

    fn seed(&self) -> u64 {
        self.seed.get()
    }

    fn set_seed(&mut self, seed: u64) {
        self.seed.set(seed);
    }

    fn inspect(&mut self, on: bool) {
        self.inspects = on;
    }

    fn found(&self) -> Option<&NonFinite> {
        self.findings.first.get()
    }

    fn record(&mut self, on: bool) {
        (self.records, self.recorded) = (on, None);
        for book in &self.books {
            let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
            let functions = self.functions.iter().filter(|_| on);
            *book = functions.map(|function| CallTimes::of(&function.program)).collect();
        }
    }

    fn recorded(&self, processor: usize) -> Option<(&Compiled, CallTimes)> {
        let (function, book) = (self.recorded?, self.books.get(processor)?);
        let book = book.lock().unwrap_or_else(PoisonError::into_inner);
        Some((&self.functions[function], book.get(function)?.clone()))
    }

    fn functions(&self) -> &[Compiled] {
        &self.functions
    }

    fn variable(&self, variable: usize) -> &Value {
        &self.variables[variable]
    }

    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        outputs: &mut [Array],
        shown: &mut [Array],
    ) -> Result<(), String> {
        fits(&self.functions[function].program, feeds, outputs, shown)?;
        let recorded = self.records.then(Instant::now);
        self.recorded = recorded.map(|_| function);
        let inspects = self.inspects;
        self.pool.call(|job| {
            job.function = function;
            job.recorded = recorded;
            job.inspected = inspects;
            job.feeds.clear();
            job.feeds.extend(feeds.iter().map(Global::of));
            job.fetches.clear();
            job.fetches.extend(outputs.iter_mut().chain(shown).map(Global::of_mut));
        })
    }

    fn read(
        &self,
        processor: usize,
        variable: usize,
        begin: &[usize],
        array: &mut Array,
    ) -> Result<(), String> {
        let border = border(&self.variables[variable], begin, array.dtype(), array.shape())?;
        let slice = self.stores[processor].variables[variable].pointer();
        // SAFETY: the slice lies within the array, which we borrow; no call is running.
        unsafe { border.paste(slice, &Global::of_mut(array)) };
        Ok(())
    }

    fn write(
        &mut self,
        processor: usize,
        variable: usize,
        begin: &[usize],
        array: &ArrayRef<'_>,
    ) -> Result<(), String> {
        let border = border(&self.variables[variable], begin, array.dtype(), array.shape())?;
        let slice = self.stores[processor].variables[variable].pointer();
        // SAFETY: the slice lies within the array; no call is running.
        unsafe { border.cut(&Global::of(array), slice) };
        Ok(())
    }

    fn variable_bytes(&self, processor: usize, variable: usize) -> Cow<'_, [u8]> {
        let buffer = &self.stores[processor].variables[variable];
        // SAFETY: zeroed or written, this long; no call runs while the machine is borrowed.
        unsafe { slice::from_raw_parts(buffer.pointer(), self.variables[variable].bytes()) }.into()
    }

    fn set_variable_bytes(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), String> {
        expect_bytes(&self.variables[variable], bytes)?;
        let buffer = &self.stores[processor].variables[variable];
        // SAFETY: this long; no call runs while the machine is borrowed.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.pointer(), bytes.len()) };
        Ok(())
    }

    fn fetch_bytes(&self, processor: usize, function: usize, fetch: usize) -> Cow<'_, [u8]> {
        let Compiled { program, plan } = &self.functions[function];
        let value = program.fetches[fetch].value;
        let store = &self.stores[processor];
        let pointer = match plan.places[value.index()] {
            Place::Arena(offset) => store.arena.pointer().wrapping_add(offset),
            Place::Variable(variable) => store.variables[variable.index()].pointer(),
            // No fetch of a function is in a loop.
            Place::Fed(_) | Place::Stacked(_) => return Cow::default(),
        };
        // SAFETY: preparing found the value's place to be this large; else as above.
        unsafe { slice::from_raw_parts(pointer, program.value(value).bytes()) }.into()
    }
}
