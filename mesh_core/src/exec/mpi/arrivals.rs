//! How processors of several processes of a host wait for each other.

use std::hint;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::comm::Stopped;
use super::super::threads::{Barrier, Process, lock};
use super::communicator::Post;
use super::patience::{Pause, YIELDING, missing};
use super::world::World;

/// Each member counts its arrivals where the others see it, and waits until they have counted as many:
/// so who is missing can be told.
pub(super) struct Arrivals {
    pub(super) world: &'static World,
    pub(super) process: Arc<Process>,
    pub(super) deadline: Duration,
    /// By member, with its rank among all.
    pub(super) posts: Vec<(&'static Post, usize)>,
    /// Why waiting ended without who was waited for.
    pub(super) problem: Arc<Mutex<Option<String>>>,
}

impl Arrivals {
    /// Whether a member has come to this round; it may have come to the next.
    fn has_come(&self, member: usize, round: u32) -> bool {
        let arrived = self.posts[member].0.arrived.load(Ordering::Acquire);
        arrived.wrapping_sub(round) <= 1
    }

    /// Waits for one member.
    fn wait_for(&self, member: usize, round: u32) -> Result<(), Stopped> {
        let (spin, mut pause) = (self.process.spin(0), Pause::default());
        loop {
            for _ in 0..=spin {
                if self.has_come(member, round) {
                    return Ok(());
                }
                hint::spin_loop();
            }
            if self.process.stop.is_stopped() {
                return Err(Stopped);
            }
            let waited = pause.rest();
            if waited > YIELDING {
                self.world.carry_on();
            }
            if waited > self.deadline {
                self.give_up(round, waited)?;
            }
        }
    }

    /// Unless this process was stopped meanwhile, and finds that all have come.
    fn give_up(&self, round: u32, waited: Duration) -> Result<(), Stopped> {
        let absent = (0..self.posts.len()).filter(|&member| !self.has_come(member, round));
        let absent = absent.map(|member| self.posts[member].1).collect();
        match missing(absent, self.world.rank, waited, self.deadline) {
            None => Ok(()),
            problem => {
                *lock(&self.problem) = problem;
                Err(Stopped)
            }
        }
    }
}

impl Barrier for Arrivals {
    fn rounds(&self, member: usize) -> u32 {
        // Only the member itself changes it.
        self.posts[member].0.arrived.load(Ordering::Relaxed)
    }

    fn wait(&self, member: usize) -> Result<(), Stopped> {
        let round = self.rounds(member).wrapping_add(1);
        self.posts[member].0.arrived.store(round, Ordering::Release);
        let mut others = (0..self.posts.len()).filter(|other| *other != member);
        others.try_for_each(|other| self.wait_for(other, round))
    }
}
