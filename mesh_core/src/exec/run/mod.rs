//! Runs a prepared function on one processor. Actions and loops run each other; whoever looks on, the
//! clock or the inspector of numbers, does so in between.
#![allow(unsafe_code, reason = "steps work on the processor's memory")]

pub(super) mod numerics;

use std::time::Instant;

use super::action::{Action, Crossing, Entry, PreparedFeed, PreparedLoop, Stretch};
use super::border::Global;
use super::comm::courier::Peers;
use super::comm::{Comm, Stopped};
use super::cpu::Memory;
use super::record::{CallTimes, Span, StepTimes, since};
use numerics::Inspector;

/// A function prepared for one processor. Made by [`Executor::new`](super::prepare).
pub(super) struct Executor {
    pub(super) feeds: Vec<PreparedFeed>,
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
        // SAFETY: pointers and sizes were prepared together, for this memory, scratch and these
        // peers.
        unsafe {
            match *self {
                Self::Kernel(ref kernel) => {
                    kernel.run(memory, scratch);
                    Ok(())
                }
                Self::Meet { group, ref collective } => peers.comm.meet(group, collective),
                Self::Begin { group, ref begun } => peers.begin(group, begun),
                Self::Await(ref begun) => peers.wait(begun),
                Self::Copy { ref walk, from, to } => {
                    walk.copy(from, to);
                    Ok(())
                }
                Self::Loop(ref mut repeat) => repeat.run(peers, memory, scratch, body),
            }
        }
    }
}

impl PreparedLoop {
    /// # Safety
    ///
    /// As [`Executor::run`].
    pub(super) unsafe fn run(
        &mut self,
        peers: &mut Peers<impl Comm>,
        outer: &Memory,
        scratch: *mut u8,
        mut watch: Watch<'_>,
    ) -> Result<(), Stopped> {
        // SAFETY: pointers and sizes were prepared together from values that fit each other; a
        // bool is one byte that a step has written; a part's places are apart, or one.
        unsafe {
            for &Entry { from, to, bytes } in &self.first {
                Stretch { from: outer.pointers[from], to: outer.pointers[to], bytes }.copy();
            }
            for part in &self.staying {
                self.memory.pointers[part.value] = part.at(outer, 0);
            }
            let mut go_on = self.condition.is_none_or(|(first, _)| *outer.pointers[first] != 0);
            let mut done = 0;
            while go_on && done < self.count {
                let position = if self.reverse { self.count - 1 - done } else { done };
                self.position.write(position as i32);
                for part in &self.moving {
                    self.memory.pointers[part.value] = part.at(outer, position);
                }
                self.memory.coming.clear();
                if done + 1 < self.count {
                    let next = if self.reverse { position - 1 } else { position + 1 };
                    for part in &self.coming {
                        self.memory.coming.add(part.at(outer, next), part.bytes);
                    }
                }
                for part in &self.given {
                    let from = part.at(outer, position).cast_const();
                    let to = self.memory.pointers[part.value];
                    Stretch { from, to, bytes: part.bytes }.copy();
                }
                watch.iteration(position, &self.memory);
                for (step, action) in &mut self.actions {
                    watch.step(*step, action, peers, &self.memory, scratch)?;
                }
                go_on = self.condition.is_none_or(|(_, again)| *self.memory.pointers[again] != 0);
                for part in &self.left {
                    let from = self.memory.pointers[part.value].cast_const();
                    let to = part.at(outer, position);
                    Stretch { from, to, bytes: part.bytes }.copy();
                }
                done += 1;
            }
        }
        Ok(())
    }
}

/// Looks on at the steps of one program, if anybody wants to.
pub(super) struct Watch<'t> {
    times: Option<(Instant, &'t mut [StepTimes])>,
    inspector: Option<Inspector<'t>>,
}

impl<'t> Watch<'t> {
    pub(super) fn new(times: Option<&'t mut CallTimes>, inspector: Option<Inspector<'t>>) -> Self {
        Self { times: times.map(|times| (times.started, &mut times.steps[..])), inspector }
    }

    /// Feeds have been copied.
    ///
    /// # Safety
    ///
    /// They lie where `memory` says.
    pub(super) unsafe fn feeds(&mut self, memory: &Memory) -> Result<(), Stopped> {
        match &mut self.inspector {
            // SAFETY: the feeds lie where `memory` says.
            Some(inspector) => unsafe { inspector.feeds(memory) },
            None => Ok(()),
        }
    }

    /// An iteration of the loop begins whose body is looked at.
    ///
    /// # Safety
    ///
    /// What the iteration is given lies where `memory` says.
    pub(super) unsafe fn iteration(&mut self, position: usize, memory: &Memory) {
        if let Some(inspector) = &mut self.inspector {
            // SAFETY: what the iteration is given lies where `memory` says.
            unsafe { inspector.iteration(position, memory) };
        }
    }

    /// Runs a step.
    ///
    /// # Safety
    ///
    /// As [`Action::run`].
    pub(super) unsafe fn step<C: Comm>(
        &mut self,
        step: usize,
        action: &mut Action,
        peers: &mut Peers<C>,
        memory: &Memory,
        scratch: *mut u8,
    ) -> Result<(), Stopped> {
        let Self { times, inspector } = self;
        if times.is_none() && inspector.is_none() {
            // SAFETY: the action was prepared for this memory, scratch and these peers.
            return unsafe { action.run(peers, memory, scratch, Watch::new(None, None)) };
        }
        let mut met = false;
        if let Some(inspector) = inspector {
            // SAFETY: the steps before have written what this one reads.
            met = unsafe { inspector.before(step, action, &mut peers.comm, memory)? };
        }
        let mut times = times.as_mut().map(|(started, steps)| (*started, &mut steps[step]));
        let begin = times.as_ref().map(|(started, _)| since(*started));
        let body = Watch {
            times: times.as_mut().map(|(started, times)| (*started, &mut times.body[..])),
            inspector: inspector.as_mut().and_then(|inspector| inspector.body(step)),
        };
        // SAFETY: the action was prepared for this memory, scratch and these peers.
        let done = unsafe { action.run(peers, memory, scratch, body) };
        if let (Ok(()), Some((started, times)), Some(begin)) = (done, times, begin) {
            times.note(begin, since(started));
        }
        match (inspector, done) {
            // SAFETY: the step has written its outs.
            (Some(inspector), Ok(())) => unsafe { inspector.after(step, memory, met) },
            (Some(inspector), Err(Stopped)) => {
                inspector.stopped(step);
                done
            }
            (None, _) => done,
        }
    }
}
