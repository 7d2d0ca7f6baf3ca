use super::super::comm::fold::Fold;
use super::super::comm::tests::{Suite, suite};
use super::super::comm::{Collective, Comm, Lane, Part, Stop, Stopped};
use super::super::memory::Buffer;
use super::super::sync::{Arc, thread};
use super::comm::Threads;
use super::process::Process;
use crate::names::{DType, Mesh, ProcessMap, ReduceKind};
use crate::program::FoldOrder;

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

    fn barrier(mesh: &Mesh, comm: &mut Self) {
        let axes: Vec<_> = mesh.axes().collect();
        let group = comm.group(&axes);
        comm.wait(group).unwrap();
    }
}

suite!(Threads);

#[test]
fn one_failure_stops_everybody() {
    let mesh: Mesh = "x:2;y:2".parse().unwrap();
    let [x, y] = ["x", "y"].map(|name| [mesh.axis(name).unwrap()]);
    for round in 0..200 {
        let process = Process::new(ProcessMap::new(&mesh, 1).unwrap(), 0, 0, None);
        let outcomes = on_threads(&process, |processor| {
            let comm = &mut Threads::new(&process, processor, Lane::Processor);
            let groups = [comm.group(&x), comm.group(&y)];
            let fold = Fold::new(ReduceKind::Sum, DType::F32).unwrap();
            // Those that go on a little longer read what the one that failed has left behind.
            let data: &Buffer = Box::leak(Box::new(Buffer::zeroed(8000).unwrap()));
            let sum = |elements| {
                let part = Part { input: data.pointer(), out: data.pointer(), elements };
                let (order, parts) = (FoldOrder::Ring, [part].into());
                Collective::AllReduce { fold, order, parts }
            };
            let sums: &[_; 2] = Box::leak(Box::new([sum(3), sum(2000)]));
            for step in 0.. {
                if processor == round % 4 && step == round % 7 {
                    process.stop.poison("test".to_owned());
                    return Err(Stopped);
                }
                // SAFETY: as large as it says, and never freed.
                unsafe { comm.meet(groups[step / 2 % 2], &sums[step % 2])? };
            }
            Ok(())
        });
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == Err(Stopped)));
        assert_eq!(outcomes.len(), 4);
    }
}
