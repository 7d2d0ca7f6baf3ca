//! A barrier that spins, then sleeps, and that can be stopped for good.

use super::super::comm::{Bell, Padded, Stop, Stopped};
use super::super::sync::{Arc, AtomicU32, Ordering};

/// Where the members of a group wait for each other, any number of times: who comes last lets the
/// others go.
#[derive(Debug)]
pub(super) struct Barrier {
    members: u32,
    spin: u32,
    arrived: Padded<AtomicU32>,
    generation: Padded<AtomicU32>,
    bell: Arc<Bell>,
    stop: Arc<Stop>,
}

impl Barrier {
    /// A barrier for `members` threads, each looking `spin` times before it lets others run.
    pub(super) fn new(members: usize, spin: u32, stop: &Arc<Stop>) -> Self {
        Self {
            members: members as u32,
            spin,
            arrived: Padded::default(),
            generation: Padded::default(),
            bell: stop.bell(),
            stop: Arc::clone(stop),
        }
    }

    /// How often the members have met; it wraps at a power of two. For a member that has not arrived:
    /// the count cannot change before it does, and it saw the last change when it left.
    pub(super) fn generation(&self) -> u32 {
        self.generation.0.load(Ordering::Relaxed)
    }

    /// Waits for the other members. What any of them did before, all of them see after.
    pub(super) fn wait(&self) -> Result<(), Stopped> {
        if self.stop.is_stopped() {
            return Err(Stopped);
        }
        let generation = self.generation();
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.generation.0.store(generation.wrapping_add(1), Ordering::Release);
            self.bell.ring();
            return Ok(());
        }
        let met = || self.generation.0.load(Ordering::Acquire) != generation;
        self.bell.wait(self.spin, || met() || self.stop.is_stopped());
        if met() { Ok(()) } else { Err(Stopped) }
    }
}
