//! One function on one processor.
#![allow(unsafe_code, reason = "steps work on the processor's memory")]

use std::sync::Arc;

use super::border::{Border, Global};
use super::collective::Collective;
use super::comm::{Comm, Group, Stopped};
use super::courier::{Begun, Peers};
use super::cpu::{Kernel, Memory};
use super::fed::Fed;
use super::loops::Repeat;
use super::numerics::Inspector;
use super::record::{CallTimes, Span, since};

use super::strided::Walk;
use super::watch::Watch;

/// A step with everything looked up. Pointers go into the processor's own memory.
pub(super) enum Action {
    Kernel(Box<dyn Kernel>),
    Meet {
        group: Group,
        collective: Collective,
    },
    /// A collective that is awaited later.
    Begin {
        /// Of the processors themselves.
        group: Group,
        begun: Arc<Begun>,
    },
    Await(Arc<Begun>),
    /// A read or write of a variable that the plan did not alias.
    Copy {
        walk: Walk,
        from: *const u8,
        to: *mut u8,
    },
    Loop(Box<Repeat>),
}

/// A value that goes to the caller.
pub(super) struct Crossing {
    /// Which of the call's arrays.
    pub(super) index: usize,
    pub(super) border: Border,
    pub(super) value: *mut u8,
}

/// A function prepared for one processor. Made by [`Executor::new`](super::prepare).
pub(super) struct Executor {
    pub(super) feeds: Vec<Fed>,
    /// With the step of the program each comes from.
    pub(super) actions: Vec<(usize, Action)>,
    /// Those that this processor delivers.
    pub(super) fetches: Vec<Crossing>,
    pub(super) memory: Memory,
    pub(super) scratch_bytes: usize,
    /// The step that runs, or ran last.
    pub(super) position: usize,
}

// SAFETY: the pointers lead to memory of a `Store` and are used by whichever thread runs the
// processor.
unsafe impl Send for Executor {}

impl Executor {
    /// Runs the function once; notes when, in `times` that have been restarted, and has numbers
    /// looked at.
    ///
    /// # Safety
    ///
    /// The store that the executor was made for is alive, `scratch` is good for `scratch_bytes` and
    /// aligned, and only this processor uses them, its peers' collectives aside. `feeds` and
    /// `fetches` are alive arrays of the global shapes and dtypes of the program's slots, `feeds` at
    /// least what is [addressable](super::addressable) here of them, `fetches` touched by executors
    /// only. The same function runs on every processor of the mesh.
    pub(super) unsafe fn run(
        &mut self,
        peers: &mut Peers<impl Comm>,
        scratch: *mut u8,
        feeds: &[Global],
        fetches: &[Global],
        mut times: Option<&mut CallTimes>,
        inspector: Option<Inspector<'_>>,
    ) -> Result<(), Stopped> {
        let began = times.as_ref().map(|times| since(times.started));
        for (feed, array) in self.feeds.iter().zip(feeds) {
            // SAFETY: the slot's slice lies within its array; the value is this processor's.
            unsafe { feed.take(array, &mut self.memory) };
        }
        if let Some((times, begin)) = times.as_mut().zip(began) {
            times.feeds = Span { begin, end: since(times.started) };
        }
        let mut watch = Watch::new(times.as_deref_mut(), inspector);
        // SAFETY: the feeds are there.
        unsafe { watch.feeds(&self.memory)? };
        for (step, action) in &mut self.actions {
            self.position = *step;
            // SAFETY: preparing checked the sizes against the plan; what a step may assume of its
            // inputs the steps before it have made true.
            unsafe { watch.step(*step, action, peers, &self.memory, scratch)? };
        }
        let began = times.as_ref().map(|times| since(times.started));
        for fetch in &self.fetches {
            // SAFETY: as for feeds; no two processors deliver the same slice.
            unsafe { fetch.border.paste(fetch.value, &fetches[fetch.index]) };
        }
        if let Some((times, begin)) = times.zip(began) {
            times.fetches = Span { begin, end: since(times.started) };
        }
        Ok(())
    }
}

impl Action {
    /// The collective that is begun, if one is.
    pub(super) fn begun(&self) -> Option<&Arc<Begun>> {
        if let Self::Begin { begun, .. } = self { Some(begun) } else { None }
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        match self {
            Self::Kernel(kernel) => kernel.scratch_bytes(),
            _ => 0,
        }
    }

    /// # Safety
    ///
    /// As [`Executor::run`].
    pub(super) unsafe fn run(
        &mut self,
        peers: &mut Peers<impl Comm>,
        memory: &Memory,
        scratch: *mut u8,
        body: Watch<'_>,
    ) -> Result<(), Stopped> {
        // SAFETY: the same contract; pointers and sizes were prepared together.
        unsafe {
            match *self {
                Self::Kernel(ref kernel) => {
                    kernel.run(memory, scratch);
                    Ok(())
                }
                Self::Meet { group, ref collective } => collective.run(&mut peers.comm, group),
                Self::Begin { group, ref begun } => peers.begin(group, begun),
                Self::Await(ref begun) => peers.wait(begun),
                Self::Copy { ref walk, from, to } => {
                    walk.copy(from, to);
                    Ok(())
                }
                Self::Loop(ref mut repeat) => repeat.run(peers, scratch, body),
            }
        }
    }
}
