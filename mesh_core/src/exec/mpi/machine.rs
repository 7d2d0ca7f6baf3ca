//! One rank's processor.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{ptr, thread};

use super::super::border::Global;
use super::super::comm::{Comm, Group, Stopped};
use super::super::courier::Peers;
use super::super::executor::Executor;
use super::super::machine::{Machine, border, expect_bytes, fits};
use super::super::memory::{Buffer, Store};
use super::super::numerics::{Inspector, Known, NonFinite};
use super::super::prepare::{Target, describe, variable_bytes};
use super::super::record::CallTimes;
use super::super::seed::Seed;
use super::super::threads::message;
use super::Ranks;
use super::comm::RankComm;
use super::last::LastStep;
use super::room::Room;
use super::start::{Delivery, deliveries, fail, last_step, meet};
use super::world::{World, world};
use crate::array::{Array, ArrayRef};
use crate::names::Mesh;
use crate::program::{Compiled, Value, VariableType, owns};

/// One rank's processor, memory and prepared functions of a module.
pub(crate) struct RankMachine {
    world: &'static World,
    mesh: Mesh,
    /// Of all ranks.
    everybody: Group,
    peers: Mutex<Peers<RankComm>>,
    processor: usize,
    store: Store,
    functions: Vec<Compiled>,
    /// One per function, like the two below.
    executors: Vec<Executor>,
    deliveries: Vec<Vec<Delivery>>,
    known: Vec<Known>,
    variables: Vec<Value>,
    seed: Seed,
    scratch: Buffer,
    /// Where the others' parts of fetches arrive.
    landing: Room,
    feeds: Vec<Global>,
    fetches: Vec<Global>,
    /// One per function, if calls are recorded.
    book: Vec<CallTimes>,
    recorded: Option<usize>,
    inspects: bool,
    /// Before this one; the first is the initialisation.
    calls: u64,
    last: Option<LastStep>,
}

// SAFETY: the pointers lead to the store, which is the machine's own.
unsafe impl Send for RankMachine {}

impl RankMachine {
    /// Prepares every function for this rank's processor, having made sure that all ranks prepare
    /// the same. Variables are zeros. The error is for people.
    pub(crate) fn new(
        mesh: &Mesh,
        variables: &[VariableType],
        functions: Vec<Compiled>,
        seed: u64,
        ranks: &Ranks,
    ) -> Result<Self, String> {
        let world = world()?;
        let _turn = world.turn();
        if mesh.processors() != world.size {
            let (processors, size) = (mesh.processors(), world.size);
            return Err(format!(
                "mesh {mesh} has {processors} processors, but {size} ranks were started: start as \
                 many ranks as processors, or change the mesh"
            ));
        }
        world.set_patience(ranks.deadline);
        let mut comm = RankComm::new(world, mesh, ranks.deadline)?;
        let everybody = meet(world, &mut comm, mesh, variables, &functions, seed)?;
        let last = last_step(world, &mut comm, everybody, ranks)?;
        let (processor, seed) = (comm.processor, Seed::new(seed));
        let mut peers = Peers::new(comm, RankComm::new(world, mesh, ranks.deadline)?);
        let arena = functions.iter().map(|function| function.plan.arena_bytes).max().unwrap_or(0);
        let bytes = |v: &VariableType| match owns(mesh, processor, &v.owners) {
            true => variable_bytes(v),
            false => 0,
        };
        let buffers = variables.iter().map(|v| Buffer::zeroed(bytes(v)));
        let held = buffers.collect::<Result<_, _>>()?;
        let store = Store { arena: Buffer::zeroed(arena)?, variables: held };
        let (seeding, private) = (&seed, true);
        let target = Target { mesh, processor, variables, store: &store, seed: seeding, private };
        let executors = functions.iter().map(|f| Executor::new(f, &target, &mut peers));
        let executors = executors.collect::<Result<Vec<_>, _>>()?;
        let parts = functions.iter().zip(&executors);
        let deliveries = parts.map(|(f, executor)| deliveries(f, executor, mesh, &mut peers.comm));
        let deliveries = deliveries.collect();
        if let Some(problem) = peers.problem() {
            return Err(problem);
        }
        let scratch = executors.iter().map(|executor| executor.scratch_bytes).max();
        let values = variables.iter().map(|v| Value::new(v.dtype, v.extents.iter().copied()));
        Ok(Self {
            world,
            mesh: mesh.clone(),
            everybody,
            peers: Mutex::new(peers),
            processor,
            store,
            functions,
            executors,
            deliveries,
            known: Vec::new(),
            variables: values.collect(),
            seed,
            scratch: Buffer::zeroed(scratch.unwrap_or(0))?,
            landing: Room::new()?,
            feeds: Vec::new(),
            fetches: Vec::new(),
            book: Vec::new(),
            recorded: None,
            inspects: false,
            calls: 0,
            last,
        })
    }

    fn peers(&self) -> MutexGuard<'_, Peers<RankComm>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a processor's slice, which is at `slice` if the processor is this one.
    fn slice_bytes(&self, processor: usize, slice: *const u8, bytes: usize) -> Cow<'_, [u8]> {
        let _turn = self.world.turn();
        let mut all = vec![0; bytes];
        let (mut peers, everybody) = (self.peers(), self.everybody);
        let comm = &mut peers.comm;
        // SAFETY: the slice and `all` are this long; no call runs while the machine is borrowed.
        let done = unsafe { comm.broadcast(everybody, processor, bytes, slice, all.as_mut_ptr()) };
        if done.is_err() {
            fail(self.world, comm, "reading from another rank");
        }
        all.into()
    }

    /// Runs this rank's part of a function.
    fn run(&mut self, function: usize, began: Option<Instant>) -> Result<(), String> {
        let peers = self.peers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let times = self.book.get_mut(function).filter(|_| began.is_some());
        let times = times.zip(began).map(|(times, began)| {
            times.restart(began);
            times
        });
        if self.inspects && self.known.is_empty() {
            self.known = self.functions.iter().map(|f| Known::of(&f.program)).collect();
        }
        let mut found = None;
        let known = self.known.get_mut(function).filter(|_| self.inspects);
        let inspector = known.map(|known| Inspector {
            mesh: &self.mesh,
            processor: self.processor,
            program: &self.functions[function].program,
            known,
            found: &mut found,
            rounds: None,
        });
        let (executor, scratch) = (&mut self.executors[function], self.scratch.pointer());
        let (feeds, fetches) = (&self.feeds, &self.fetches);
        // SAFETY: the store is ours; `call` has checked the arrays, which outlive the call; every
        // rank is told to run the same function.
        let run = || unsafe { executor.run(peers, scratch, feeds, fetches, times, inspector) };
        let problem = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Stopped)) => match found {
                Some(found) => return Err(found.to_string()),
                None => peers.problem().unwrap_or_else(|| "it stopped".to_owned()),
            },
            Err(panic) => message(&*panic).to_owned(),
        };
        let position = self.executors[function].position;
        let at = describe(&self.functions[function].program, position);
        Err(format!("in {at}: {problem}"))
    }

    /// Gets the parts of fetches that other ranks have.
    fn deliver(&mut self, function: usize) -> Result<(), Stopped> {
        let peers = self.peers.get_mut().unwrap_or_else(PoisonError::into_inner);
        let comm = &mut peers.comm;
        for Delivery { fetch, group, value, bytes, borders } in &self.deliveries[function] {
            let landing = self.landing.of(group.size * bytes).map_err(|problem| {
                comm.wire.problem.get_or_insert(problem);
                Stopped
            })?;
            // SAFETY: the value is that large, and lies still between calls; the parts have their
            // places in the array, which is the caller's own.
            unsafe {
                comm.all_gather(*group, 1, *bytes, *value, landing)?;
                for (member, border) in borders.iter().enumerate() {
                    border.paste(landing.add(member * bytes), &self.fetches[*fetch]);
                }
            }
        }
        Ok(())
    }

    /// Ends the job.
    fn stop(&mut self, function: usize, problem: &str) -> ! {
        let (rank, call) = (self.world.rank, self.calls);
        let name = &self.functions[function].program.name;
        let message = format!("rank {rank}, in call {call} (`{name}`): {problem}");
        if let Some(last) = &mut self.last {
            last.note_failure(&message);
        }
        self.world.fail(&message)
    }
}

impl Machine for RankMachine {
    fn rank(&self) -> usize {
        self.world.rank
    }

    fn any(&self, here: bool) -> bool {
        let _turn = self.world.turn();
        let mut peers = self.peers();
        let comm = &mut peers.comm;
        match comm.meet(self.everybody, here) {
            Ok(all) => all.contains(&1),
            Err(Stopped) => fail(self.world, comm, "asking the other ranks"),
        }
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

    /// Whoever finds something ends the job.
    fn found(&self) -> Option<&NonFinite> {
        None
    }

    fn record(&mut self, on: bool) {
        self.recorded = None;
        let functions = self.functions.iter().filter(|_| on);
        self.book = functions.map(|function| CallTimes::of(&function.program)).collect();
    }

    fn recorded(&self, processor: usize) -> Option<(&Compiled, CallTimes)> {
        let function = self.recorded.filter(|_| processor == self.processor)?;
        Some((&self.functions[function], self.book.get(function)?.clone()))
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
        let _turn = self.world.turn();
        self.feeds.clear();
        self.feeds.extend(feeds.iter().map(Global::of));
        self.fetches.clear();
        self.fetches.extend(outputs.iter_mut().chain(shown).map(Global::of_mut));
        let began = (!self.book.is_empty()).then(Instant::now);
        self.recorded = began.map(|_| function);
        let name = &self.functions[function].program.name;
        if let Some(last) = &mut self.last {
            last.note(self.calls, name, false);
        }
        if let Err(problem) = self.run(function, began) {
            self.stop(function, &problem);
        }
        if let Err(Stopped) = self.deliver(function) {
            let peers = self.peers.get_mut().unwrap_or_else(PoisonError::into_inner);
            let problem = peers.problem().unwrap_or_default();
            self.stop(function, &format!("sharing its fetches: {problem}"));
        }
        let name = &self.functions[function].program.name;
        if let Some(last) = &mut self.last {
            last.note(self.calls, name, true);
        }
        self.calls += 1;
        Ok(())
    }

    fn read(
        &self,
        processor: usize,
        variable: usize,
        begin: &[usize],
        array: &mut Array,
    ) -> Result<(), String> {
        let border = border(&self.variables[variable], begin, array.dtype(), array.shape())?;
        let slice = self.variable_bytes(processor, variable);
        let aligned = Buffer::zeroed(slice.len())?;
        // SAFETY: the slice lies within the array, which we borrow.
        unsafe {
            ptr::copy_nonoverlapping(slice.as_ptr(), aligned.pointer(), slice.len());
            border.paste(aligned.pointer(), &Global::of_mut(array));
        }
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
        if processor == self.processor {
            let slice = self.store.variables[variable].pointer();
            // SAFETY: the slice lies within the array; no call is running.
            unsafe { border.cut(&Global::of(array), slice) };
        }
        Ok(())
    }

    fn variable_bytes(&self, processor: usize, variable: usize) -> Cow<'_, [u8]> {
        let slice = self.store.variables[variable].pointer();
        self.slice_bytes(processor, slice, self.variables[variable].bytes())
    }

    fn set_variable_bytes(
        &mut self,
        processor: usize,
        variable: usize,
        bytes: &[u8],
    ) -> Result<(), String> {
        expect_bytes(&self.variables[variable], bytes)?;
        if processor == self.processor {
            let slice = self.store.variables[variable].pointer();
            // SAFETY: this long; no call runs while the machine is borrowed.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), slice, bytes.len()) };
        }
        Ok(())
    }

    fn fetch_bytes(&self, processor: usize, function: usize, fetch: usize) -> Cow<'_, [u8]> {
        let program = &self.functions[function].program;
        let bytes = program.value(program.fetches[fetch].value).bytes();
        let mut own = self.executors[function].fetches.iter();
        let own = own.find(|crossing| crossing.index == fetch);
        own.map_or(Cow::default(), |own| self.slice_bytes(processor, own.value, bytes))
    }
}

impl Drop for RankMachine {
    fn drop(&mut self) {
        if let Some(last) = self.last.as_ref().filter(|_| !thread::panicking()) {
            last.end();
        }
    }
}
