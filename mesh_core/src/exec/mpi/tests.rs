//! Run as `mpirun -n 4 … exec::mpi --test-threads 1`: every rank runs the same tests, and those of as
//! many processors as there are ranks, or fewer, do something.

use std::time::Duration;

use super::super::comm_tests::{Suite, collected, line, suite};
use super::super::threads::Threads;
use super::comm::RankComm;
use super::world::world;
use crate::exec::comm::Comm;
use crate::names::Mesh;

impl Suite for RankComm {
    fn everywhere<R: Send>(
        mesh: &Mesh,
        body: impl Fn(usize, &mut Self) -> R + Sync,
    ) -> Vec<(usize, R)> {
        let world = world(Duration::from_secs(30)).unwrap();
        let _turn = world.turn();
        if mesh.processors() > world.size {
            return Vec::new();
        }
        let Ok(mut comm) = RankComm::new(world, mesh, Duration::from_secs(30)) else {
            return Vec::new();
        };
        let processor = comm.processor;
        let result = body(processor, &mut comm);
        assert_eq!(comm.problem, None);
        vec![(processor, result)]
    }

    fn barrier(&mut self) {
        let axes: Vec<_> = self.mesh.axes().collect();
        let group = self.group(&axes);
        assert!(self.meet(group, true).unwrap().iter().all(|&said| said == 1));
    }
}

suite!(RankComm);

#[test]
fn collectives_give_the_bytes_of_threads() {
    for members in [2, 3, 4] {
        for (outer, chunk) in [(1, 7), (3, 64), (1, 20_000), (2, 9_000)] {
            let among_threads = collected::<Threads>(members, outer, chunk);
            for (processor, ours) in collected::<RankComm>(members, outer, chunk) {
                let (_, theirs) = &among_threads[processor];
                // NaN or a zero's sign would show.
                assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            }
        }
    }
}

#[test]
fn groups_follow_the_order_of_processors() {
    let mesh = line(4).with_order(vec![2, 0, 3, 1]).unwrap();
    let axes: Vec<_> = mesh.axes().collect();
    let results = RankComm::everywhere(&mesh, |processor, comm| {
        let group = comm.group(&axes);
        assert_eq!(group.rank, processor);
        let (mut all, own) = ([0_u8; 4], processor as u8);
        // SAFETY: a byte each.
        unsafe { comm.all_gather(group, 1, 1, &own, all.as_mut_ptr()).unwrap() };
        (all, comm.wire.world.rank)
    });
    for (processor, (all, rank)) in results {
        assert_eq!((all, mesh.physical(processor)), ([0, 1, 2, 3], rank));
    }
}
