use std::thread;
use std::time::{Duration, Instant};

use super::super::super::comm_tests::{Suite, suite};
use super::super::super::memory::Buffer;
use super::super::barrier::Stop;
use super::*;
use crate::names::{DType, Mesh, ProcessMap, ReduceKind};

/// Stops the others when its thread panics.
struct Alarm<'s>(&'s Stop);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.poison("a test failed".to_owned());
        }
    }
}

/// Runs `body` on all processors of a process, on a thread each.
pub(in crate::exec) fn on_threads<R: Send>(
    process: &Arc<Process>,
    body: impl Fn(usize) -> R + Sync,
) -> Vec<(usize, R)> {
    let run = |processor| {
        let _alarm = Alarm(&process.stop);
        (processor, body(processor))
    };
    thread::scope(|scope| {
        let run = &run;
        let processors = process.processors().iter();
        let threads: Vec<_> = processors.map(|&p| scope.spawn(move || run(p))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

impl Suite for Threads {
    type Comm = Self;

    fn everywhere<R: Send>(
        mesh: &Mesh,
        body: impl Fn(usize, &mut Self) -> R + Sync,
    ) -> Vec<(usize, R)> {
        let process = Process::new(ProcessMap::new(mesh, 1).unwrap(), 0, 0, None);
        on_threads(&process, |processor| {
            body(processor, &mut Threads::new(&process, processor, Lane::Processor))
        })
    }

    fn barrier(comm: &mut Self) {
        let axes: Vec<_> = comm.process.mesh().axes().collect();
        let group = comm.group(&axes);
        comm.seats[group.id].meet().unwrap();
    }
}

suite!(Threads);

#[test]
fn one_failure_stops_everybody() {
    let mesh: Mesh = "x:2;y:2".parse().unwrap();
    let [x, y] = ["x", "y"].map(|name| [mesh.axis(name).unwrap()]);
    for round in 0..200 {
        let started = Instant::now();
        let outcomes = Threads::everywhere(&mesh, |processor, comm| {
            let groups = [comm.group(&x), comm.group(&y)];
            let fold = Fold::new(ReduceKind::Sum, DType::F32).unwrap();
            // Those that go on a little longer read what the one that failed has left behind.
            let data: &Buffer = Box::leak(Box::new(Buffer::zeroed(8000).unwrap()));
            let part = |elements| Part { input: data.pointer(), out: data.pointer(), elements };
            let parts: &[Part; 2] = Box::leak(Box::new([part(3), part(2000)]));
            for step in 0.. {
                if processor == round % 4 && step == round % 7 {
                    comm.process.stop.poison("test".to_owned());
                    return Err(Stopped);
                }
                let parts = std::slice::from_ref(&parts[step % 2]);
                // SAFETY: as large as it says.
                unsafe { comm.all_reduce(groups[step / 2 % 2], fold, FoldOrder::Ring, parts)? };
            }
            Ok(())
        });
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == Err(Stopped)));
        assert_eq!(outcomes.len(), 4);
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}
