//! Collectives beside computation.
//!
//! A processor has a second [`Comm`] for the collectives that its program only begins where they
//! stand, so that what is under way never mixes with what the processors meet for themselves. Where
//! there is a core to spare, the *courier*, a thread, carries them out with it, in the order in which
//! they begin; elsewhere the processor does so itself where they begin. Members of one group may do
//! either: all begin the same collectives in the same order.
#![allow(unsafe_code, reason = "carries pointers to another thread")]

use super::super::sync::thread::{self, JoinHandle};
use super::super::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};
use super::{Bell, Collective, Comm, Group, Stop, Stopped, caught};

/// How many collectives may be under way; whoever begins another waits.
const QUEUE: u64 = 64;

/// A collective that is begun in one place and awaited in another.
pub(in crate::exec) struct Begun {
    /// Of the courier's.
    pub(in crate::exec) group: Group,
    pub(in crate::exec) collective: Collective,
    /// The step, for people.
    pub(in crate::exec) description: String,
    /// Its number among all that the processor has begun.
    number: AtomicU64,
}

// SAFETY: pointers go into memory of a `Store`, which outlives the courier; whoever runs the collective
// has the processor's leave, from where it begins to where it is awaited.
unsafe impl Send for Begun {}
// SAFETY: nothing of it changes but the number, which is atomic; sharing it dereferences no pointer.
unsafe impl Sync for Begun {}

impl Begun {
    pub(in crate::exec) fn new(
        group: Group,
        collective: Collective,
        description: String,
    ) -> Arc<Self> {
        Arc::new(Self { group, collective, description, number: AtomicU64::new(0) })
    }
}

/// How a processor meets the others.
pub(in crate::exec) struct Peers<C> {
    pub(in crate::exec) comm: C,
    /// Unless the courier has it.
    second: Option<C>,
    courier: Option<Courier>,
    /// Whether anything is ever begun.
    has_begun: bool,
}

impl<C: Comm> Peers<C> {
    /// With what was made for the processor's own lane, and for its courier's.
    pub(in crate::exec) fn new(comm: C, second: C) -> Self {
        Self { comm, second: Some(second), courier: None, has_begun: false }
    }

    /// What collectives that are begun are prepared with, before the courier starts.
    pub(in crate::exec) fn second(&mut self) -> Result<&mut C, String> {
        self.has_begun = true;
        self.second.as_mut().ok_or_else(|| "its courier is under way already".to_owned())
    }

    /// Begins a collective, whose group among the processors themselves is `group`.
    ///
    /// # Safety
    ///
    /// That of [`Comm::meet`], whose call counts as returned when the collective has been awaited: until
    /// then its buffers are touched by `Comm`s only. `group` has the members that `begun` has.
    pub(in crate::exec) unsafe fn begin(
        &mut self,
        group: Group,
        begun: &Arc<Begun>,
    ) -> Result<(), Stopped> {
        match (&mut self.courier, &mut self.second) {
            (Some(courier), _) => {
                courier.begin(begun);
                Ok(())
            }
            // SAFETY: `second` prepared the group; members and buffers are as `meet` requires.
            (None, Some(second)) => unsafe { second.meet(begun.group, &begun.collective) },
            // SAFETY: `comm` prepared `group`; members and buffers are as `meet` requires.
            (None, None) => unsafe { self.comm.meet(group, &begun.collective) },
        }
    }

    /// Waits for a collective that was begun.
    pub(in crate::exec) fn wait(&mut self, begun: &Begun) -> Result<(), Stopped> {
        match &self.courier {
            Some(courier) => courier.wait(begun.number.load(Ordering::Relaxed)),
            _ => Ok(()),
        }
    }

    /// Waits until nothing is under way. After a failure, once everybody has been stopped.
    pub(in crate::exec) fn settle(&mut self) {
        if let Some(courier) = &self.courier {
            courier.settle();
        }
    }

    /// Why the last collective failed, if that is known here.
    pub(in crate::exec) fn problem(&mut self) -> Option<String> {
        self.comm.problem().or_else(|| self.second.as_mut()?.problem())
    }
}

impl<C: Comm + 'static> Peers<C> {
    /// Has a thread of its own carry out what is begun, if anything is; `spin` is how
    /// often threads look before they let others run.
    pub(in crate::exec) fn start(
        &mut self,
        processor: usize,
        spin: u32,
        stop: &Arc<Stop>,
    ) -> Result<(), String> {
        let Some(second) = self.second.take_if(|_| self.has_begun) else { return Ok(()) };
        self.courier = Some(Courier::new(second, processor, spin, stop)?);
        Ok(())
    }
}

/// What a processor and its courier share.
struct Shared {
    processor: usize,
    spin: u32,
    stop: Arc<Stop>,
    /// Number `n` is at `n % QUEUE`.
    queue: [Mutex<Option<Arc<Begun>>>; QUEUE as usize],
    begun: AtomicU64,
    done: AtomicU64,
    closed: AtomicBool,
    /// Rung when something begins.
    call: Bell,
    /// Rung when something is done.
    finish: Bell,
}

/// The thread that carries out what a processor begins.
struct Courier {
    shared: Arc<Shared>,
    begun: u64,
    thread: Option<JoinHandle<()>>,
}

impl Courier {
    fn new<C: Comm + 'static>(
        comm: C,
        processor: usize,
        spin: u32,
        stop: &Arc<Stop>,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            processor,
            spin,
            stop: Arc::clone(stop),
            queue: [const { Mutex::new(None) }; QUEUE as usize],
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            call: Bell::default(),
            finish: Bell::default(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(format!("courier-{processor}"))
            .spawn(move || own.carry(comm))
            .map_err(|error| format!("cannot start courier {processor}: {error}"))?;
        Ok(Self { shared, begun: 0, thread: Some(thread) })
    }

    fn begin(&mut self, begun: &Arc<Begun>) {
        let shared = &*self.shared;
        shared.wait_for((self.begun + 1).saturating_sub(QUEUE));
        *lock(&shared.queue[(self.begun % QUEUE) as usize]) = Some(Arc::clone(begun));
        self.begun += 1;
        begun.number.store(self.begun, Ordering::Relaxed);
        shared.begun.store(self.begun, Ordering::Release);
        shared.call.ring();
    }

    fn wait(&self, number: u64) -> Result<(), Stopped> {
        self.shared.wait_for(number);
        if self.shared.stop.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    fn settle(&self) {
        self.shared.wait_for(self.begun);
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.call.ring();
        if let Some(thread) = self.thread.take() {
            // Panics were caught inside.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Waits until so many are done. A collective that cannot be carried out is done as well, but
    /// everybody has been stopped.
    fn wait_for(&self, number: u64) {
        self.finish.wait(self.spin, || self.done.load(Ordering::Acquire) >= number);
    }

    /// Carries out what begins until the processor is gone.
    fn carry(&self, mut comm: impl Comm) {
        let mut done = 0;
        loop {
            let begun = || self.begun.load(Ordering::Acquire) > done;
            self.call.wait(self.spin, || begun() || self.closed.load(Ordering::Acquire));
            if !begun() {
                return;
            }
            let next = lock(&self.queue[(done % QUEUE) as usize]).take();
            if let Some(next) = next.filter(|_| !self.stop.is_stopped()) {
                self.run(&next, &mut comm);
            }
            done += 1;
            self.done.store(done, Ordering::Release);
            self.finish.ring();
        }
    }

    fn run(&self, begun: &Begun, comm: &mut impl Comm) {
        // SAFETY: whoever called `Peers::begin` promised that all members meet for it, and that nobody
        // else touches its buffers before it is awaited, which is after this.
        let run = || unsafe { comm.meet(begun.group, &begun.collective) };
        let problem = match caught(run) {
            Ok(Ok(())) => return,
            // Without a problem of its own it was stopped by somebody who has.
            Ok(Err(Stopped)) => comm.problem(),
            Err(problem) => Some(problem),
        };
        if let Some(problem) = problem {
            let (processor, at) = (self.processor, &begun.description);
            self.stop.poison(format!("processor {processor} failed in {at}: {problem}"));
        }
    }
}

#[cfg(test)]
#[path = "courier_tests.rs"]
mod tests;
