//! The processors that a process runs, a thread each, and a mesh that has all of them in one.
#![allow(unsafe_code, reason = "collectives and calls work on memory that threads share")]

mod barrier;
#[cfg(test)]
mod barrier_tests;
mod comm;
#[cfg(test)]
mod comm_tests;
mod crew;
mod limits;
mod meeting;
mod pool;
#[cfg(test)]
mod pool_tests;
mod process;
mod processor;
mod work;

use std::borrow::Cow;

use core_affinity::CoreId;

pub(super) use self::comm::Threads;
#[cfg(all(test, feature = "mpi"))]
pub(super) use self::comm_tests::on_threads;
pub(crate) use self::crew::Crew;
pub(super) use self::process::Process;
pub(super) use self::work::Work;
use super::backend::{Backend, Capabilities, Failure};
use super::comm::Lane;
use super::record::CallTimes;
use super::sync::{OnceLock, thread};
use crate::array::{Array, ArrayRef};
use crate::names::ProcessMap;
use crate::passes::Executable;
use crate::program::Program;

/// Cores by number; none where the system does not say what cores there are.
fn core_ids(numbers: &[usize]) -> Result<Vec<CoreId>, String> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let known = core_affinity::get_core_ids().unwrap_or_default();
    let find = |number: &usize| {
        known.iter().find(|core| core.id == *number).copied().ok_or_else(|| {
            let known: Vec<_> = known.iter().map(|core| core.id.to_string()).collect();
            format!("there is no core {number} to run on; there are {}", known.join(", "))
        })
    };
    if known.is_empty() { Ok(Vec::new()) } else { numbers.iter().map(find).collect() }
}

/// A mesh whose processors are all threads of this process.
pub(crate) struct ThreadBackend(Crew);

impl ThreadBackend {
    /// Prepares every function for every processor of the mesh, which are kept on the cores of these
    /// numbers, if any, and have couriers, if that is said. Variables are zeros. The error is for people;
    /// a mesh of which this machine cannot run every processor as a thread is one, before anything is
    /// made for them.
    pub(crate) fn new(
        executable: Executable,
        seed: u64,
        pins: &[usize],
        couriers: Option<bool>,
    ) -> Result<Self, String> {
        limits::check(&executable, couriers)?;
        let cores = Self::cores();
        let map = ProcessMap::new(&executable.mesh, 1).map_err(|error| error.to_string())?;
        let (process, pins) = (Process::new(map, 0, cores, couriers), core_ids(pins)?);
        let pin = |&processor: &usize| pins.get(processor).copied();
        let pins: Vec<_> = process.processors().iter().filter_map(pin).collect();
        let comm = |processor, lane: Lane| Ok(Threads::new(&process, processor, lane));
        Crew::new(&process, Work::new(executable), seed, &pins, comm).map(Self)
    }

    /// How many threads this machine runs at a time.
    pub(crate) fn cores() -> usize {
        static CORES: OnceLock<usize> = OnceLock::new();
        *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
    }
}

/// The bytes of a processor that has to be here.
pub(super) fn here(bytes: Option<&[u8]>, processor: usize) -> Result<Cow<'_, [u8]>, Failure> {
    let elsewhere = || Failure::Refused(format!("processor {processor} is not in this process"));
    bytes.map(Cow::from).ok_or_else(elsewhere)
}

impl Backend for ThreadBackend {
    fn name(&self) -> &str {
        "threads"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn map(&self) -> &ProcessMap {
        &self.0.process.map
    }

    fn share(&self) -> Result<Box<dyn Backend>, Failure> {
        let process = self.0.process.again();
        limits::check_bytes(process.mesh(), self.0.arena_bytes(), process.couriers)
            .map_err(Failure::Refused)?;
        let comm = |processor, lane: Lane| Ok(Threads::new(&process, processor, lane));
        let crew = self.0.share(&process, comm).map_err(Failure::Refused)?;
        Ok(Box::new(Self(crew)))
    }

    fn seed(&self) -> u64 {
        self.0.seed().get()
    }

    fn set_seed(&mut self, seed: u64) {
        self.0.seed().set(seed);
    }

    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure> {
        self.0.call(function, feeds, fetches, probes)
    }

    fn slice(&self, processor: usize, variable: usize) -> Result<Cow<'_, [u8]>, Failure> {
        here(self.0.slice(processor, variable)?, processor)
    }

    fn set_slice(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        self.0.set_slice(processor, variable, bytes)
    }

    fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        here(self.0.fetched_slice(processor, function, fetch)?, processor)
    }

    fn record(&mut self, on: bool) -> Result<(), Failure> {
        self.0.record(on);
        Ok(())
    }

    fn recorded(&self, processor: usize) -> Option<(&Program, CallTimes)> {
        self.0.recorded(processor)
    }
}
