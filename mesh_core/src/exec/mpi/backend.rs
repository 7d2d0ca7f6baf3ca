//! The processors of one rank, and what ranks have to do with each other between calls.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::super::backend::{Backend, Capabilities, Failure, Processes};
use super::super::border::Global;
use super::super::comm::{Collective, Group, Lane, Stopped};
use super::super::record::CallTimes;
use super::super::sync::{Arc, Mutex, MutexGuard, PoisonError, lock, thread};
use super::super::threads::{Crew, Work, here};
use super::Ranks;
use super::comm::RankComm;
use super::communicator::{Communicators, add_axis_sets};
use super::deliver::{Delivery, deliver, deliveries};
use super::last::LastStep;
use super::messages::Messages;
use super::staging::Staging;
use super::start::{compare, fail, last_step, process, processes};
use super::world::{World, world};
use crate::array::{Array, ArrayRef};
use crate::names::ProcessMap;
use crate::passes::Executable;
use crate::program::Program;

/// One rank's processors of a mesh.
pub(crate) struct RankBackend {
    world: &'static World,
    processes: Processes,
    crew: Crew,
    /// This rank among all.
    ranks: Mutex<Messages>,
    everybody: Group,
    /// One per function.
    deliveries: Vec<Vec<Delivery>>,
    /// Where the others' slices of fetches arrive.
    landing: Staging,
    fetches: Vec<Global>,
    /// Before this one; the first is the initialisation.
    calls: u64,
    last: Option<LastStep>,
}

impl RankBackend {
    /// Prepares every function for this rank's processors, having made sure that all ranks prepare
    /// the same. Variables are zeros. The error is for people.
    pub(crate) fn new(executable: Executable, seed: u64, ranks: &Ranks) -> Result<Self, String> {
        let world = world(ranks.deadline)?;
        let _turn = world.turn();
        let process = process(world, &executable.mesh, ranks)?;
        world.set_patience(ranks.deadline);
        let messages = || Messages::new(world, &process, ranks.deadline);
        let mut own = messages()?;
        let everybody = own.ranks();
        compare(&mut own, everybody, &executable, seed)?;
        let mut sets = BTreeSet::new();
        let blocks = executable.programs().map(|compiled| &compiled.program.block);
        blocks.for_each(|block| add_axis_sets(block, &mut sets));
        let communicators = Communicators::new(world, &process.map, sets, ranks.deadline)?;
        let communicators = Arc::new(communicators);
        let processes = processes(&mut own, everybody, ranks);
        let last = last_step(&mut own, everybody, ranks.last_step.as_deref())?;
        let comm = |processor, lane: Lane| {
            Ok(RankComm::new(&process, processor, lane, messages()?, &communicators))
        };
        let crew = Crew::new(&process, Work::new(executable), seed, &[], comm)?;
        let functions = 0..crew.functions().len();
        Ok(Self {
            world,
            processes,
            deliveries: functions.map(|function| deliveries(&crew, function)).collect(),
            crew,
            ranks: Mutex::new(own),
            everybody,
            landing: Staging::new()?,
            fetches: Vec::new(),
            calls: 0,
            last,
        })
    }

    fn ranks(&self) -> MutexGuard<'_, Messages> {
        lock(&self.ranks)
    }

    /// Bytes of a processor, which are `own` if it is here.
    fn shared(
        &self,
        processor: usize,
        own: Option<&[u8]>,
        bytes: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        if processor >= self.map().mesh().processors() {
            return Err(Failure::Refused(format!("there is no processor {processor}")));
        }
        let _turn = self.world.turn();
        let mut all = vec![0; bytes];
        let (root, _) = self.crew.process.map.place(processor);
        let (input, out) = (own.unwrap_or(&all).as_ptr(), all.as_mut_ptr());
        let (mut ranks, everybody) = (self.ranks(), self.everybody);
        let collective = Collective::Broadcast { root, bytes, input, out };
        // SAFETY: `all`, and `own` at the root, are this long, and ours until this returns; messages
        // touch nobody else's.
        if unsafe { ranks.meet(everybody, &collective) }.is_err() {
            self.fail(&mut ranks, "reading from another rank");
        }
        Ok(all.into())
    }

    /// Ends the job because something between calls failed.
    fn fail(&self, ranks: &mut Messages, doing: &str) -> ! {
        let call = self.calls.saturating_sub(1);
        fail(ranks, &format!("after call {call}, {doing}"))
    }

    /// Ends the job.
    fn stop(&mut self, function: usize, problem: &str) -> ! {
        let (rank, call) = (self.world.rank, self.calls);
        let name = self.crew.function_name(function).to_owned();
        let message = format!("rank {rank}, in call {call} (`{name}`): {problem}");
        if let Some(last) = &mut self.last {
            last.note_failure(&message);
        }
        self.world.fail(&message)
    }

    /// Notes that the present call begins or has ended.
    fn note(&mut self, function: usize, ended: bool) {
        if let Some(last) = &mut self.last {
            last.note(self.calls, self.crew.function_name(function), ended);
        }
    }
}

impl Backend for RankBackend {
    fn name(&self) -> &str {
        "mpi"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn map(&self) -> &ProcessMap {
        &self.crew.process.map
    }

    fn processes(&self) -> Processes {
        self.processes
    }

    fn any(&self, here: bool) -> bool {
        let _turn = self.world.turn();
        let mut ranks = self.ranks();
        match ranks.ask(self.everybody, here) {
            Ok(all) => all.contains(&1),
            Err(Stopped) => self.fail(&mut ranks, "asking the other ranks"),
        }
    }

    fn seed(&self) -> u64 {
        self.crew.seed().get()
    }

    fn set_seed(&mut self, seed: u64) {
        self.crew.seed().set(seed);
    }

    /// Whoever fails ends the job.
    fn call(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        fetches: &mut [Array],
        probes: &mut [Array],
    ) -> Result<(), Failure> {
        let _turn = self.world.turn();
        self.note(function, false);
        match self.crew.call(function, feeds, fetches, probes) {
            Ok(()) => {}
            Err(refused @ Failure::Refused(_)) => return Err(refused),
            Err(failure) => self.stop(function, &failure.to_string()),
        }
        self.fetches.clear();
        self.fetches.extend(fetches.iter_mut().chain(probes).map(Global::of_mut));
        let ranks = self.ranks.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (deliveries, fetches) = (&self.deliveries[function], &self.fetches);
        // SAFETY: the crew has found that the arrays fit the function's slots; this call borrows them, and
        // the crew is done with them.
        let delivered = unsafe { deliver(deliveries, ranks, &mut self.landing, fetches) };
        if let Err(Stopped) = delivered {
            let problem = ranks.wire.problem.take().unwrap_or_default();
            self.stop(function, &format!("sharing its fetches: {problem}"));
        }
        self.note(function, true);
        self.calls += 1;
        Ok(())
    }

    fn slice(&self, processor: usize, variable: usize) -> Result<Cow<'_, [u8]>, Failure> {
        let bytes = self.crew.variable(variable)?.bytes();
        self.shared(processor, self.crew.slice(processor, variable)?, bytes)
    }

    fn addressable_slice(
        &self,
        processor: usize,
        variable: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        here(self.crew.slice(processor, variable)?, processor)
    }

    fn set_slice(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        self.crew.set_slice(processor, variable, bytes)
    }

    fn fetched_slice(
        &self,
        processor: usize,
        function: usize,
        fetch: usize,
    ) -> Result<Cow<'_, [u8]>, Failure> {
        let bytes = self.crew.fetched_bytes(function, fetch)?;
        self.shared(processor, self.crew.fetched_slice(processor, function, fetch)?, bytes)
    }

    fn record(&mut self, on: bool) -> Result<(), Failure> {
        self.crew.record(on);
        Ok(())
    }

    fn recorded(&self, processor: usize) -> Option<(&Program, CallTimes)> {
        self.crew.recorded(processor)
    }
}

impl Drop for RankBackend {
    fn drop(&mut self) {
        if let Some(last) = self.last.as_ref().filter(|_| !thread::panicking()) {
            last.end();
        }
    }
}
