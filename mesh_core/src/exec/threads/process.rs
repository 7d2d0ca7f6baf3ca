//! The processors of a mesh that one process runs.

use super::super::comm::{Lane, Stop};
use super::super::sync::{Arc, Mutex, lock};
use super::meeting::Meeting;
use crate::names::{Mesh, ProcessMap};

/// How often a thread looks before it lets others run, when it has a core of its own: a few
/// microseconds, for the system may have put two threads on one core all the same.
const SPIN: u32 = 100;

/// Whose meeting it is, the members in group order.
type Known = ((Lane, Vec<usize>), Arc<Meeting>);

/// The processors of a mesh that this process runs, and what they share in order to meet.
pub(in crate::exec) struct Process {
    pub(in crate::exec) map: ProcessMap,
    /// Which of the processes this is.
    pub(in crate::exec) rank: usize,
    pub(in crate::exec) stop: Arc<Stop>,
    cores: usize,
    /// Whether each processor has a courier with a thread of its own.
    pub(in crate::exec) couriers: bool,
    meetings: Mutex<Vec<Known>>,
}

impl Process {
    /// Process `rank`, which has so many cores to itself. Unless it is said whether there are
    /// couriers, there are if each has a core, too.
    pub(in crate::exec) fn new(
        map: ProcessMap,
        rank: usize,
        cores: usize,
        couriers: Option<bool>,
    ) -> Arc<Self> {
        let couriers = couriers.unwrap_or(2 * map.of(rank).len() <= cores);
        let (stop, meetings) = (Arc::default(), Mutex::default());
        Arc::new(Self { map, rank, stop, cores, couriers, meetings })
    }

    /// The same processors once more, who have nothing in common with these.
    pub(super) fn again(&self) -> Arc<Self> {
        Self::new(self.map.clone(), self.rank, self.cores, Some(self.couriers))
    }

    pub(in crate::exec) fn mesh(&self) -> &Mesh {
        self.map.mesh()
    }

    /// The processors that it runs.
    pub(in crate::exec) fn processors(&self) -> &[usize] {
        self.map.of(self.rank)
    }

    /// Which of them a processor is, if it is here.
    pub(in crate::exec) fn index(&self, processor: usize) -> Option<usize> {
        let known = processor < self.mesh().processors();
        let (rank, index) = known.then(|| self.map.place(processor))?;
        (rank == self.rank).then_some(index)
    }

    /// Whether each processor has a core of its own, as have its courier and `others` threads besides.
    pub(in crate::exec) fn is_roomy(&self, others: usize) -> bool {
        let threads = self.processors().len() * if self.couriers { 2 } else { 1 };
        threads + others <= self.cores
    }

    /// How often to look before letting others run, if so many threads beside the processors want
    /// to run.
    pub(in crate::exec) fn spin(&self, others: usize) -> u32 {
        if self.is_roomy(others) { SPIN } else { 0 }
    }

    /// Where these members, all of this process, meet.
    pub(super) fn meeting(&self, lane: Lane, members: Vec<usize>) -> Arc<Meeting> {
        let (mut meetings, whose) = (lock(&self.meetings), (lane, members));
        if let Some((_, meeting)) = meetings.iter().find(|(known, _)| *known == whose) {
            return Arc::clone(meeting);
        }
        let meeting = Arc::new(Meeting::new(whose.1.len(), self.spin(0), &self.stop));
        meetings.push((whose, Arc::clone(&meeting)));
        meeting
    }
}
