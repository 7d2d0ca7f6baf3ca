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

use core_affinity::CoreId;

pub(super) use self::comm::Threads;
#[cfg(all(test, feature = "mpi"))]
pub(super) use self::comm_tests::on_threads;
pub(crate) use self::crew::Crew;
pub(super) use self::process::Process;
use super::comm::Lane;
use super::machine::Machine;
use super::sync::thread;
use crate::names::{Mesh, ProcessMap};
use crate::program::{Compiled, VariableType};

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

/// A mesh whose processors are all threads of this process.
pub(crate) struct ThreadMachine(Crew);

impl ThreadMachine {
    /// Refuses a mesh of which this machine cannot run every processor as a thread, before anything is
    /// made for them. The error is for people.
    pub(crate) fn check<'c>(
        mesh: &Mesh,
        variables: &[VariableType],
        functions: impl Iterator<Item = &'c Compiled>,
        couriers: Option<bool>,
    ) -> Result<(), String> {
        limits::check(mesh, variables, functions, couriers)
    }

    /// As [`with_couriers`](Self::with_couriers), where there are cores for them.
    #[cfg(test)]
    pub(crate) fn new(
        mesh: &Mesh,
        variables: &[VariableType],
        functions: Vec<Compiled>,
        seed: u64,
        pins: &[usize],
    ) -> Result<Self, String> {
        Self::with_couriers(mesh, variables, functions, seed, pins, None)
    }

    /// Prepares every function for every processor of the mesh, which are kept on the cores of these
    /// numbers, if any, and have couriers, if that is said. Variables are zeros. The error is for people.
    pub(crate) fn with_couriers(
        mesh: &Mesh,
        variables: &[VariableType],
        functions: Vec<Compiled>,
        seed: u64,
        pins: &[usize],
        couriers: Option<bool>,
    ) -> Result<Self, String> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let map = ProcessMap::new(mesh, 1).map_err(|error| error.to_string())?;
        let (process, pins) = (Process::new(map, 0, cores, couriers), core_ids(pins)?);
        let pin = |&processor: &usize| pins.get(processor).copied();
        let pins: Vec<_> = process.processors().iter().filter_map(pin).collect();
        let comm = |processor, lane: Lane| Ok(Threads::new(&process, processor, lane));
        Crew::new(&process, variables, functions, seed, &pins, comm).map(Self)
    }
}

impl Machine for ThreadMachine {
    fn crew(&self) -> &Crew {
        &self.0
    }

    fn crew_mut(&mut self) -> &mut Crew {
        &mut self.0
    }
}
