//! Who looks on while steps run: the clock, and the inspector of numbers.
#![allow(unsafe_code, reason = "runs steps")]

use std::time::Instant;

use super::comm::{Comm, Stopped};
use super::courier::Peers;
use super::cpu::Memory;
use super::executor::Action;
use super::numerics::Inspector;
use super::record::{CallTimes, StepTimes, since};

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
            // SAFETY: as stated.
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
            // SAFETY: as stated.
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
            // SAFETY: the same contract.
            return unsafe { action.run(peers, memory, scratch, Watch::new(None, None)) };
        }
        let mut met = false;
        if let Some(inspector) = inspector {
            // SAFETY: the same contract.
            met = unsafe { inspector.before(step, action, &mut peers.comm, memory)? };
        }
        let mut times = times.as_mut().map(|(started, steps)| (*started, &mut steps[step]));
        let begin = times.as_ref().map(|(started, _)| since(*started));
        let body = Watch {
            times: times.as_mut().map(|(started, times)| (*started, &mut times.body[..])),
            inspector: inspector.as_mut().and_then(|inspector| inspector.body(step)),
        };
        // SAFETY: the same contract.
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
