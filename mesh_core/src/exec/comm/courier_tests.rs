use std::time::{Duration, Instant};

use super::*;
use crate::exec::action::Action;
use crate::exec::comm::Parts;
use crate::exec::comm::fold::Fold;
use crate::exec::cpu::{Kernel, Memory};
use crate::exec::memory::{Buffer, Store};
use crate::exec::prepare::Site;
use crate::exec::run::Executor;
use crate::exec::seed::Seed;
use crate::exec::sync::mpsc::{Receiver, Sender, channel};
use crate::names::{Axis, DType, Mesh, ReduceKind};
use crate::program::{Builder, Compiled, Extents, FoldOrder, Place, Plan, Scalar};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(20);

/// Meets as the closure says, whatever for.
struct Fake {
    meet: Box<dyn FnMut(Group) -> Result<(), Stopped> + Send>,
    problem: Option<String>,
}

/// Notes the groups met.
fn noting<T: Send + 'static>(
    log: &Arc<Mutex<Vec<T>>>,
    note: impl Fn(usize) -> T + Send + 'static,
) -> Fake {
    let log = Arc::clone(log);
    fake(move |group| {
        lock(&log).push(note(group.id));
        Ok(())
    })
}

fn fake(meet: impl FnMut(Group) -> Result<(), Stopped> + Send + 'static) -> Fake {
    Fake { meet: Box::new(meet), problem: None }
}

/// For what is never met.
fn nobody() -> Fake {
    fake(|group| panic!("{group:?}"))
}

impl Comm for Fake {
    fn group(&mut self, _: &[Axis]) -> Group {
        Group { id: 0, rank: 0, size: 2 }
    }

    fn problem(&mut self) -> Option<String> {
        self.problem.take()
    }

    unsafe fn meet(&mut self, group: Group, _: &Collective) -> Result<(), Stopped> {
        (self.meet)(group)
    }
}

/// The courier of processor 7 has started.
fn peers(comm: Fake, second: Fake) -> (Peers<Fake>, Arc<Stop>) {
    let (mut peers, stop) = (Peers::new(comm, second), Arc::new(Stop::default()));
    peers.second().unwrap();
    peers.start(7, 0, &stop).unwrap();
    (peers, stop)
}

/// An all-reduce of nothing.
fn empty(id: usize) -> Arc<Begun> {
    let fold = Fold::new(ReduceKind::Sum, DType::F32).unwrap();
    let collective = Collective::AllReduce { fold, order: FoldOrder::Group, parts: Parts::new() };
    Begun::new(Group { id, rank: 0, size: 1 }, collective, format!("step {id}"))
}

/// Waits for the courier to be inside a collective, then lets it out.
struct LetsOut(Mutex<Receiver<()>>, Sender<()>);

impl Kernel for LetsOut {
    unsafe fn run(&self, _: &Memory, _: *mut u8) {
        lock(&self.0).recv_timeout(LONG).unwrap();
        self.1.send(()).unwrap();
    }
}

#[test]
fn a_step_computes_while_the_courier_is_inside_a_collective() {
    let mesh: Mesh = "x:2".parse().unwrap();
    let axes: Vec<_> = mesh.axes().collect();
    let mut p = Builder::new("train", &mesh);
    let ones =
        |p: &mut Builder<'_>| p.fill(Scalar::new(DType::F32, 1.0), Extents::from_slice(&[16]));
    let partial = ones(&mut p);
    let sum = p.all_reduce(ReduceKind::Sum, &axes, partial);
    ones(&mut p);
    p.wait(sum);
    let places = (0..3).map(|i| Place::Arena(64 * i)).collect();
    let plan = Plan { places, arena_bytes: 192, bodies: Vec::new() };
    let compiled = Compiled { program: p.finish(), plan };

    let (inside, is_inside) = channel();
    let (let_out, out) = channel();
    let meets = move |_| {
        inside.send(()).unwrap();
        out.recv_timeout(LONG).map_err(|_| Stopped)
    };
    let store = Store { arena: Buffer::zeroed(192).unwrap(), variables: Arc::default() };
    let (variables, processor, here) = (&[], 0, &[0][..]);
    let (seed, store) = (&Seed::new(0), &store);
    let mesh = &mesh;
    let target = Site { mesh, processor, here, variables, store, seed, inspects: false };
    let mut peers = Peers::new(nobody(), fake(meets));
    let mut executor = Executor::new(&compiled, &target, &mut peers).unwrap();
    let stop = Arc::new(Stop::default());
    peers.start(0, 0, &stop).unwrap();
    let beside = executor.actions.iter_mut().find(|(step, _)| *step == 2).unwrap();
    beside.1 = Action::Kernel(Box::new(LetsOut(Mutex::new(is_inside), let_out)));
    // SAFETY: the store is alive and ours, and large enough; there are no feeds and fetches.
    let done = unsafe { executor.run(&mut peers, std::ptr::null_mut(), &[], &[], None, None) };
    assert_eq!(done, Ok(()));
}

#[test]
fn more_than_fit_are_carried_out_in_their_order() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (mut peers, _) = peers(nobody(), noting(&log, |id| id));
    let group = Group { id: 99, rank: 0, size: 1 };
    for round in 1..4 {
        let all: Vec<_> = (0..300).map(empty).collect();
        for begun in &all {
            // SAFETY: there is nothing to touch.
            unsafe { peers.begin(group, begun).unwrap() };
        }
        for (index, begun) in all.iter().enumerate() {
            peers.wait(begun).unwrap();
            assert!(lock(&log).len() > 300 * (round - 1) + index);
        }
        peers.settle();
        assert!(lock(&log).iter().copied().eq((0..round).flat_map(|_| 0..300)));
    }
}

#[test]
fn without_a_courier_the_processor_meets_at_once() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut peers = Peers::new(nobody(), noting(&log, |id| id));
    let begun = empty(3);
    // SAFETY: there is nothing to touch.
    unsafe { peers.begin(Group { id: 9, rank: 0, size: 1 }, &begun).unwrap() };
    assert_eq!(lock(&log)[..], [3]);
    peers.wait(&begun).unwrap();
}

#[test]
fn a_failure_is_named_and_nobody_hangs() {
    let group = Group { id: 0, rank: 0, size: 1 };
    let panics = || fake(|group| if group.id == 5 { panic!("out of luck") } else { Ok(()) });
    let fails = || {
        let meet = |group: Group| if group.id == 5 { Err(Stopped) } else { Ok(()) };
        Fake { problem: Some("out of reach".to_owned()), ..fake(meet) }
    };
    for (second, problem) in [(panics(), "out of luck"), (fails(), "out of reach")] {
        let started = Instant::now();
        let (mut peers, stop) = peers(nobody(), second);
        let all: Vec<_> = (0..200).map(empty).collect();
        for begun in &all {
            // SAFETY: there is nothing to touch.
            unsafe { peers.begin(group, begun).unwrap() };
        }
        assert_eq!(peers.wait(&all[5]), Err(Stopped));
        assert_eq!(peers.wait(&all[199]), Err(Stopped));
        peers.settle();
        let expected = format!("processor 7 failed in step 5: {problem}");
        assert_eq!(stop.reason(), Some(expected));
        drop(peers);
        assert!(started.elapsed() < LONG);
    }
}
