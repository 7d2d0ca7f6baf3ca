//! Run as `mpirun -n 4 … exec::mpi --test-threads 1`: every rank runs the same tests, and those of as
//! many processors as there are ranks, or fewer, do something; with several processors to a rank, those
//! of more as well.

use std::time::Duration;

use mpi::ffi;

use super::super::comm::tests::{Collected, Suite, collected, line, suite, sum_f32};
use super::super::comm::{Collective, Comm, Group, Lane};
use super::super::sync::Arc;
use super::super::threads::{Process, Threads, on_threads};
use super::comm::{RankComm, Route};
use super::communicator::Communicators;
use super::messages::{Messages, SMALL, SMALL_OF_TWO};
use super::world::{World, world};
use crate::names::{Mesh, ProcessMap};

/// Longer than some ranks are busy with tests that others have no part in.
const DEADLINE: Duration = Duration::from_secs(150);

/// Communicators for groups along any axes; all ranks make them.
fn communicators(world: &World, map: &ProcessMap) -> Arc<Communicators> {
    let axes: Vec<_> = map.mesh().axes().collect();
    let chosen = |set: usize| (0..axes.len()).filter(move |axis| set >> axis & 1 == 1);
    let sets = (0..1 << axes.len()).map(|set| chosen(set).map(|axis| axes[axis]).collect());
    Arc::new(Communicators::new(world, map, sets.collect(), DEADLINE).unwrap())
}

/// Runs `body` on the processors of a mesh that are of this rank, if it is one of the first `ranks`.
fn on_ranks<R: Send>(
    mesh: &Mesh,
    ranks: usize,
    body: impl Fn(usize, &mut RankComm) -> R + Sync,
) -> Vec<(usize, R)> {
    at_lane(Lane::Processor, mesh, ranks, body)
}

fn at_lane<R: Send>(
    lane: Lane,
    mesh: &Mesh,
    ranks: usize,
    body: impl Fn(usize, &mut RankComm) -> R + Sync,
) -> Vec<(usize, R)> {
    let world = world(Duration::from_secs(30)).unwrap();
    let _turn = world.turn();
    if ranks > world.size {
        return Vec::new();
    }
    let map = ProcessMap::new(mesh, ranks).unwrap();
    let communicators = communicators(world, &map);
    if world.rank >= ranks {
        return Vec::new();
    }
    let process = Process::new(map, world.rank, 0, None);
    on_threads(&process, |processor| {
        let messages = Messages::new(world, &process, DEADLINE).unwrap();
        let mut comm = RankComm::new(&process, processor, lane, messages, &communicators);
        let result = body(processor, &mut comm);
        assert_eq!(comm.problem(), None);
        result
    })
}

/// How many ranks share the processors of a mesh, and which ends of these meet.
trait Shared {
    const LANE: Lane = Lane::Processor;

    fn ranks(mesh: &Mesh) -> usize;
}

impl<S: Shared> Suite for S {
    type Comm = RankComm;

    fn everywhere<R: Send>(
        mesh: &Mesh,
        body: impl Fn(usize, &mut RankComm) -> R + Sync,
    ) -> Vec<(usize, R)> {
        at_lane(S::LANE, mesh, S::ranks(mesh), body)
    }

    fn barrier(mesh: &Mesh, comm: &mut RankComm) {
        let axes: Vec<_> = mesh.axes().collect();
        let group = comm.group(&axes);
        assert!(say(comm, group, 1).iter().all(|&said| said == 1));
    }
}

/// What every member says.
fn say(comm: &mut RankComm, group: Group, byte: u8) -> Vec<u8> {
    let mut all = vec![0; group.size];
    let (input, out) = (&raw const byte, all.as_mut_ptr());
    // SAFETY: a byte each, which threads show in a mailbox.
    unsafe { comm.meet(group, &Collective::AllGather { outer: 1, chunk: 1, input, out }).unwrap() };
    all
}

struct OneEach;

impl Shared for OneEach {
    fn ranks(mesh: &Mesh) -> usize {
        mesh.processors()
    }
}

/// As many ranks as can have two or more processors each.
struct SeveralEach;

impl Shared for SeveralEach {
    fn ranks(mesh: &Mesh) -> usize {
        let (processors, most) = (mesh.processors(), world(Duration::from_secs(30)).unwrap().size);
        let fits = |ranks: &usize| processors.is_multiple_of(*ranks) && *ranks <= most;
        (1..=processors / 2).rev().find(fits).unwrap_or(1)
    }
}

/// The ends that couriers have.
struct Couriers;

impl Shared for Couriers {
    const LANE: Lane = Lane::Courier;

    fn ranks(mesh: &Mesh) -> usize {
        SeveralEach::ranks(mesh)
    }
}

mod one_each {
    super::suite!(super::OneEach);
}

mod several_each {
    super::suite!(super::SeveralEach);
}

fn compare<S: Suite>(members: impl IntoIterator<Item = usize>) {
    for members in members {
        for (outer, chunk) in [(1, 7), (3, 64), (1, 20_000), (2, 9_000)] {
            let among_threads = collected::<Threads>(members, outer, chunk);
            for (processor, ours) in collected::<S>(members, outer, chunk) {
                let (_, theirs) = &among_threads[processor];
                assert!(bits(&ours) == bits(theirs), "{members} {outer} {chunk}");
            }
        }
    }
}

fn bits((gathered, scattered, turned, rest): &Collected) -> Vec<u64> {
    let all = [gathered, scattered, turned].into_iter().chain(rest).flatten();
    all.map(|x| x.to_bits()).collect()
}

#[test]
fn collectives_give_the_bytes_of_threads() {
    compare::<OneEach>([2, 3, 4]);
    compare::<SeveralEach>([4, 6]);
    compare::<Couriers>([6]);
}

#[test]
fn small_and_large_messages_sum_alike() {
    fn sums<S: Suite>(members: impl IntoIterator<Item = usize>) {
        for members in members {
            let most = if members == 2 { SMALL_OF_TWO } else { SMALL } / members / 4;
            for count in [most - 1, most, most + 1] {
                sum_f32::<S>(&line(members), &["all"], &[count], true);
                sum_f32::<S>(&line(members), &["all"], &[1, count - 2, 1], false);
            }
        }
    }
    sums::<OneEach>([2, 3, 4]);
    sums::<SeveralEach>([4, 6]);
    sums::<Couriers>([4, 6]);
}

#[test]
fn communicators_are_named_and_made_once() {
    let mesh: Mesh = "rows:2;cols:2".parse().unwrap();
    let world = world(Duration::from_secs(30)).unwrap();
    let _turn = world.turn();
    if world.size < 2 {
        return;
    }
    let map = ProcessMap::new(&mesh, 2).unwrap();
    let [first, second] = [(); 2].map(|()| communicators(world, &map));
    let along =
        |names: &[&str]| -> Vec<_> { names.iter().map(|name| mesh.axis(name).unwrap()).collect() };
    for (axes, name) in [
        (along(&["rows"]), "mesh:rows"),
        (along(&["cols", "rows"]), "mesh:rows,cols"),
        (along(&["cols"]), "mesh"),
    ] {
        let [channel, again] = [&first, &second].map(|all| all.along(&axes).channel);
        assert_eq!(channel, again, "{name}");
        // Ranks that have no part in the mesh have no name for its axes.
        let expected = if world.rank < 2 { name } else { "mesh" };
        let (mut text, mut length) = ([0_u8; ffi::MPI_MAX_OBJECT_NAME as usize], 0);
        // SAFETY: as long as it may be.
        unsafe { ffi::MPI_Comm_get_name(channel.0, text.as_mut_ptr().cast(), &mut length) };
        assert_eq!(std::str::from_utf8(&text[..length as usize]).unwrap(), expected);
    }
}

#[test]
fn groups_follow_the_order_of_processors() {
    let mesh = line(4).with_order(vec![2, 0, 3, 1]).unwrap();
    let axes: Vec<_> = mesh.axes().collect();
    for ranks in [1, 2, 4] {
        let results = on_ranks(&mesh, ranks, |processor, comm| {
            let group = comm.group(&axes);
            assert_eq!(group.rank, processor);
            say(comm, group, processor as u8)
        });
        for (processor, all) in results {
            assert_eq!(all, [0, 1, 2, 3]);
            assert_eq!(
                mesh.physical(processor) / (4 / ranks),
                world(Duration::from_secs(30)).unwrap().rank
            );
        }
    }
}

#[test]
fn threads_meet_within_a_rank_and_ranks_by_messages() {
    let straight: Mesh = "host:2;local:2".parse().unwrap();
    let turned = straight.clone().with_order(vec![0, 2, 1, 3]).unwrap();
    for (mesh, within, between) in [(straight, "local", "host"), (turned, "host", "local")] {
        let axis = |name| [mesh.axis(name).unwrap()];
        on_ranks(&mesh, 2, |_, comm| {
            let (near, far) = (comm.group(&axis(within)), comm.group(&axis(between)));
            let mixed = comm.group(&[axis(between), axis(within)].concat());
            assert_eq!((near.size, far.size, mixed.size), (2, 2, 4));
            assert!(matches!(comm.routes[near.id], Route::Threads(_)));
            assert!(matches!(comm.routes[far.id], Route::Messages(_)));
            assert!(matches!(comm.routes[mixed.id], Route::Messages(_)));
            assert_eq!(comm.group(&axis(within)), near, "a group is made once");
        });
    }
}
