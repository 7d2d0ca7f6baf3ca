//! Lets collectives run beside computation that does not need them.
//!
//! The steps are put in order anew, against a clock of estimates. A large all-reduce *begins* as soon
//! as there is what it folds (or what maps make that from), a large all-gather of a variable when the
//! one before it is about to be used, other large collectives where they stand, but that the broadcast of what an
//! owner has computed lets others compute first: all of its group meet in it, and the owner of the next variable
//! should not wait for the owner of this one before it begins. What needs a
//! collective that is under way yields to steps behind it that do not, [`WINDOW`] steps away at most.
//! It is awaited once as much has been computed as it takes, or when nothing else is left to do; so it
//! holds what it reads no longer than that pays. Then what waited comes first. Everything else keeps
//! its place, but that writes come last, as for the plan of memory.
//!
//! A collective beside which there is nothing worth [`Limits::worth`] is met where it begins. A program
//! whose values would take too much more memory at their peak ([`Limits::growth`]) is tried without
//! gathering ahead, then without yielding, and left as it was if that is not enough.

use super::Machine;
use super::buffers::least;
use super::uses::Uses;
use super::{PassCx, compact, writes_last};
use crate::names::Mesh;
use crate::program::{Block, Form, Step, ValueId, cost};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is worth it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Fewest bytes that a processor receives in a collective that is begun: handing over to a courier
    /// and back takes some microseconds, as smaller ones do themselves.
    pub(super) least: u64,
    /// Least time that is computed meanwhile, in nanoseconds; likewise.
    pub(super) worth: u64,
    /// Which part of the peak memory may be added at most.
    pub(super) growth: usize,
}

/// How far steps come forward while others wait, so that values are not made long before their use.
const WINDOW: usize = 128;

pub(super) fn run(block: &mut Block, cx: &PassCx<'_>) {
    let limits = Limits { least: 64 << 10, worth: cx.machine.caches.handover, growth: 20 };
    run_within(block, cx, limits);
}

/// As the pass, within other limits.
pub(super) fn run_within(block: &mut Block, cx: &PassCx<'_>, limits: Limits) {
    writes_last(block);
    let awaits = block.steps.iter().any(|step| matches!(step.form, Form::Await(_)));
    let (mesh, rate) = (cx.mesh, cx.machine.caches.network);
    let begins: Vec<u64> = (block.steps.iter())
        .map(|step| step.axes().map_or(0, |_| cost(block, step, mesh).sent))
        .map(|received| if received < limits.least { 0 } else { received.div_ceil(rate) })
        .collect();
    if awaits || begins.iter().all(|&time| time == 0) {
        return;
    }
    let most = peak(block);
    let most = most + most / limits.growth;
    for (window, ahead) in [(WINDOW, true), (WINDOW, false), (0, false)] {
        let mut schedule = Schedule::new(block, cx, &begins, window);
        if !ahead {
            schedule.gathers.clear();
        }
        let order = schedule.run();
        let Some(steps) = rewritten(block, &order, limits.worth) else { continue };
        let before = std::mem::replace(&mut block.steps, steps);
        writes_last(block);
        if peak(block) <= most {
            return compact(block);
        }
        block.steps = before;
    }
}

/// Bytes of values that live at once, where writes stand last.
fn peak(block: &Block) -> usize {
    let variables = block.steps.iter().map(|step| match &step.form {
        Form::Read(form) => form.variable.index() + 1,
        Form::Write(form) => form.variable.index() + 1,
        _ => 0,
    });
    let variables = variables.max().unwrap_or_default();
    least(block, variables, None)
}

/// What happens next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// A step runs, or begins.
    Runs(usize),
    /// A step that has begun is awaited, so many nanoseconds of computation later.
    Awaited(usize, u64),
}

/// The steps in that order, if any collective then runs beside something.
fn rewritten(block: &Block, order: &[Event], worth: u64) -> Option<Vec<Step>> {
    let mut steps = Vec::with_capacity(order.len());
    let mut overlaps = false;
    for event in order {
        match *event {
            Event::Runs(step) => steps.push(block.steps[step].clone()),
            Event::Awaited(step, beside) if beside >= worth => {
                steps.push(block.awaiting(&block.steps[step]));
                overlaps = true;
            }
            Event::Awaited(..) => {}
        }
    }
    overlaps.then_some(steps)
}

/// A collective under way.
struct Flight {
    step: usize,
    /// How much longer it takes.
    left: u64,
    /// How much has been computed meanwhile.
    beside: u64,
}

struct Schedule<'p> {
    block: &'p Block,
    mesh: &'p Mesh,
    machine: &'p Machine,
    /// Per step, how long it takes if it is a collective that may begin.
    begins: &'p [u64],
    window: usize,
    /// Per step, how many steps it needs that are not over.
    needs: Vec<usize>,
    /// Per step, those that need it.
    needed_by: Vec<SmallVec<[usize; 4]>>,
    /// Per step, whether it begins as soon as it can.
    is_early: Vec<bool>,
    /// Steps that have what they need.
    ready: BTreeSet<usize>,
    /// Of those, the early ones.
    early: BTreeSet<usize>,
    /// Per step, whether it is a large broadcast of what its owner has computed.
    shares: Vec<bool>,
    /// Large all-gathers of variables that have not begun, and the steps that read these.
    gathers: BTreeMap<usize, usize>,
    /// Those that need the last one that has.
    gathered_for: SmallVec<[usize; 4]>,
    /// In the order in which they have begun, and are carried out.
    flights: VecDeque<Flight>,
    order: Vec<Event>,
    has_run: Vec<bool>,
    /// All steps before have run.
    first: usize,
}

impl<'p> Schedule<'p> {
    fn new(block: &'p Block, cx: &PassCx<'p>, begins: &'p [u64], window: usize) -> Self {
        let uses = Uses::new(block);
        let count = block.steps.len();
        let mut schedule = Self {
            block,
            mesh: cx.mesh,
            machine: cx.machine,
            begins,
            window,
            needs: vec![0; count],
            needed_by: vec![SmallVec::new(); count],
            is_early: vec![false; count],
            ready: BTreeSet::new(),
            early: BTreeSet::new(),
            shares: vec![false; count],
            gathers: BTreeMap::new(),
            gathered_for: SmallVec::new(),
            flights: VecDeque::new(),
            order: Vec::with_capacity(count),
            has_run: vec![false; count],
            first: 0,
        };
        for (step, own) in block.steps.iter().enumerate() {
            let makers: BTreeSet<_> =
                own.reads().filter_map(|input| uses.maker[input.index()]).collect();
            schedule.needs[step] = makers.len();
            makers.iter().for_each(|&maker| schedule.needed_by[maker].push(step));
            let Some(&maker) = makers.first().filter(|_| begins[step] > 0) else { continue };
            match (&own.form, matches!(block.steps[maker].form, Form::Read(_))) {
                (Form::AllGather(_), true) => drop(schedule.gathers.insert(step, maker)),
                (Form::Broadcast(_), false) => schedule.shares[step] = true,
                _ => {}
            }
        }
        for step in (0..count).rev() {
            schedule.is_early[step] = schedule.may_be_early(step, &uses);
        }
        let ready = (0..count).filter(|&step| schedule.needs[step] == 0);
        ready.collect::<Vec<_>>().into_iter().for_each(|step| schedule.is_ready(step));
        schedule
    }

    /// Whether a step is a large all-reduce of what nobody else uses, or makes that, also of what nobody
    /// else uses: then it needs no more memory wherever it stands.
    fn may_be_early(&self, step: usize, uses: &Uses) -> bool {
        let Block { steps, values, .. } = self.block;
        let Step { form, inputs, outs, .. } = &steps[step];
        let bytes = |id: ValueId| values[id.index()].bytes();
        let begins = match form {
            Form::AllReduce(_) => self.begins[step] > 0,
            Form::Map(_) | Form::Move(_) => {
                let is_early = |out: &ValueId| self.is_early[uses.users[out.index()][0]];
                let read: usize = inputs.iter().map(|input| bytes(input.value)).sum();
                let same = outs.len() == 1 && bytes(outs[0]) <= read;
                same && outs.iter().all(|out| uses.has_one_reader(*out) && is_early(out))
            }
            _ => false,
        };
        begins && inputs.iter().all(|input| uses.is_taken_over(self.block, input.value))
    }

    fn run(&mut self) -> Vec<Event> {
        loop {
            while self.flights.front().is_some_and(|flight| flight.left == 0) {
                self.land();
            }
            let near = self.first + self.window;
            let waits =
                |step: &usize| self.gathers.contains_key(step) && !self.gathered_for.is_empty();
            let first = |shares: bool| {
                let next = |step: &usize| !waits(step) && (shares || !self.shares[*step]);
                self.ready.iter().copied().find(next).filter(|&step| step <= near)
            };
            let early = self.early.first().copied();
            let next = early.or_else(|| first(false)).or_else(|| first(true));
            if let Some(step) = next {
                self.go(step);
            } else if !self.land() {
                // A step needs two that are gathered.
                let Some(&step) = self.ready.first() else {
                    return std::mem::take(&mut self.order);
                };
                self.go(step);
            }
        }
    }

    fn is_ready(&mut self, step: usize) {
        self.ready.insert(step);
        if self.is_early[step] {
            self.early.insert(step);
        }
    }

    /// Begins the next all-gather of a variable, if a step is about to use the last one: so there is
    /// one more at most than is used.
    fn gather_ahead(&mut self, step: usize) {
        if !self.gathered_for.contains(&step) {
            return;
        }
        self.gathered_for.clear();
        let Some((&gather, &read)) = self.gathers.first_key_value() else { return };
        if self.ready.contains(&read) {
            self.go(read);
        }
        if self.ready.contains(&gather) {
            self.go(gather);
        }
    }

    /// Runs a step, or begins it.
    fn go(&mut self, step: usize) {
        self.gather_ahead(step);
        if self.gathers.remove(&step).is_some() && self.gathered_for.is_empty() {
            self.gathered_for = self.needed_by[step].clone();
        }
        self.ready.remove(&step);
        self.early.remove(&step);
        self.order.push(Event::Runs(step));
        self.has_run[step] = true;
        while self.has_run.get(self.first) == Some(&true) {
            self.first += 1;
        }
        if self.begins[step] > 0 {
            self.flights.push_back(Flight { step, left: self.begins[step], beside: 0 });
            return;
        }
        let mut time = self.time(step);
        let all = time;
        for flight in &mut self.flights {
            flight.beside += all;
            let done = time.min(flight.left);
            (flight.left, time) = (flight.left - done, time - done);
        }
        self.over(step);
    }

    /// Awaits the collective that began first, if there is one.
    fn land(&mut self) -> bool {
        let Some(Flight { step, beside, .. }) = self.flights.pop_front() else { return false };
        self.order.push(Event::Awaited(step, beside));
        self.over(step);
        true
    }

    /// A step's outs are there.
    fn over(&mut self, step: usize) {
        for user in std::mem::take(&mut self.needed_by[step]) {
            self.needs[user] -= 1;
            if self.needs[user] == 0 {
                self.is_ready(user);
            }
        }
    }

    /// How long a step computes, in nanoseconds.
    fn time(&self, step: usize) -> u64 {
        let step = &self.block.steps[step];
        let cost = cost(self.block, step, self.mesh);
        let per_nanosecond = |rate: f64| (rate / 1e9).round().max(1.0) as u64;
        let [flops, memory] = [self.machine.flops.f32, self.machine.memory].map(per_nanosecond);
        if step.axes().is_some() { 0 } else { (cost.flops / flops).max(cost.bytes / memory) }
    }
}
