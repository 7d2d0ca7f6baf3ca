//! The processors of one rank, and what ranks have to do with each other between calls.

use std::borrow::Cow;

use super::super::border::Global;
use super::super::comm::{Collective, Group, Lane, Stopped};
use super::super::machine::{Machine, Processes};
use super::super::sync::{Arc, Mutex, MutexGuard, PoisonError, lock, thread};
use super::super::threads::Crew;
use super::Ranks;
use super::comm::RankComm;
use super::communicator::{Communicators, axis_sets};
use super::deliver::{Delivery, deliver, deliveries};
use super::last::LastStep;
use super::messages::Messages;
use super::staging::Staging;
use super::start::{compare, fail, last_step, process, processes};
use super::world::{World, world};
use crate::array::{Array, ArrayRef};
use crate::names::Mesh;
use crate::program::{Compiled, VariableType};

/// One rank's processors of a mesh.
pub(crate) struct RankMachine {
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

impl RankMachine {
    /// Prepares every function for this rank's processors, having made sure that all ranks prepare
    /// the same. Variables are zeros. The error is for people.
    pub(crate) fn new(
        mesh: &Mesh,
        variables: &[VariableType],
        functions: Vec<Compiled>,
        seed: u64,
        ranks: &Ranks,
    ) -> Result<Self, String> {
        let world = world(ranks.deadline)?;
        let _turn = world.turn();
        let process = process(world, mesh, ranks)?;
        world.set_patience(ranks.deadline);
        let messages = || Messages::new(world, &process, ranks.deadline);
        let mut own = messages()?;
        let everybody = own.ranks();
        compare(&mut own, everybody, mesh, variables, &functions, seed)?;
        let sets = axis_sets(functions.iter().map(|function| &function.program));
        let communicators = Communicators::new(world, &process.map, sets, ranks.deadline)?;
        let communicators = Arc::new(communicators);
        let processes = processes(&mut own, everybody, ranks);
        let last = last_step(&mut own, everybody, ranks.last_step.as_deref())?;
        let comm = |processor, lane: Lane| {
            Ok(RankComm::new(&process, processor, lane, messages()?, &communicators))
        };
        let crew = Crew::new(&process, variables, functions, seed, &[], comm)?;
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
    fn shared(&self, processor: usize, own: Option<&[u8]>, bytes: usize) -> Cow<'_, [u8]> {
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
        all.into()
    }

    /// Ends the job because something between calls failed.
    fn fail(&self, ranks: &mut Messages, doing: &str) -> ! {
        let call = self.calls.saturating_sub(1);
        fail(ranks, &format!("after call {call}, {doing}"))
    }

    /// Ends the job.
    fn stop(&mut self, function: usize, problem: &str) -> ! {
        let (rank, call) = (self.world.rank, self.calls);
        let name = &self.crew.functions()[function].program.name;
        let message = format!("rank {rank}, in call {call} (`{name}`): {problem}");
        if let Some(last) = &mut self.last {
            last.note_failure(&message);
        }
        self.world.fail(&message)
    }

    /// Notes that the present call begins or has ended.
    fn note(&mut self, function: usize, ended: bool) {
        if let Some(last) = &mut self.last {
            last.note(self.calls, &self.crew.functions()[function].program.name, ended);
        }
    }
}

impl Machine for RankMachine {
    fn crew(&self) -> &Crew {
        &self.crew
    }

    fn crew_mut(&mut self) -> &mut Crew {
        &mut self.crew
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

    /// Whoever fails ends the job.
    unsafe fn run(
        &mut self,
        function: usize,
        feeds: &[ArrayRef<'_>],
        outputs: &mut [Array],
        shown: &mut [Array],
    ) -> Result<(), String> {
        let _turn = self.world.turn();
        self.note(function, false);
        // SAFETY: the arrays fit the function's slots, as `run` requires.
        if let Err(problem) = unsafe { self.crew.run(function, feeds, outputs, shown) } {
            self.stop(function, &problem);
        }
        self.fetches.clear();
        self.fetches.extend(outputs.iter_mut().chain(shown).map(Global::of_mut));
        let ranks = self.ranks.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (deliveries, fetches) = (&self.deliveries[function], &self.fetches);
        // SAFETY: the arrays fit the function's slots; `run` borrows them, and the crew's call is over.
        let delivered = unsafe { deliver(deliveries, ranks, &mut self.landing, fetches) };
        if let Err(Stopped) = delivered {
            let problem = ranks.wire.problem.take().unwrap_or_default();
            self.stop(function, &format!("sharing its fetches: {problem}"));
        }
        self.note(function, true);
        self.calls += 1;
        Ok(())
    }

    fn variable_bytes(&self, processor: usize, variable: usize) -> Cow<'_, [u8]> {
        let own = self.crew.variable_bytes(processor, variable);
        self.shared(processor, own, self.crew.variable(variable).bytes())
    }

    fn fetch_bytes(&self, processor: usize, function: usize, fetch: usize) -> Cow<'_, [u8]> {
        let program = &self.crew.functions()[function].program;
        let bytes = program.value(program.fetches[fetch].value).bytes();
        self.shared(processor, self.crew.fetch_bytes(processor, function, fetch), bytes)
    }
}

impl Drop for RankMachine {
    fn drop(&mut self) {
        if let Some(last) = self.last.as_ref().filter(|_| !thread::panicking()) {
            last.end();
        }
    }
}
