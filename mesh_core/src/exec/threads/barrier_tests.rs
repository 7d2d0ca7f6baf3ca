use super::super::comm::Stop;
use super::super::sync::{Arc, AtomicUsize, Ordering, thread};
use super::barrier::Barrier;

#[test]
fn nobody_passes_before_all_have_come() {
    for (members, spin) in [(1, 0), (2, 300), (3, 0), (8, 0), (8, 20)] {
        let stop = Arc::new(Stop::default());
        let barrier = Barrier::new(members, spin, &stop);
        let rounds = 500;
        let count = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..members {
                scope.spawn(|| {
                    for round in 1..=rounds {
                        count.fetch_add(1, Ordering::Relaxed);
                        barrier.wait().unwrap();
                        assert_eq!(count.load(Ordering::Relaxed), round * members);
                        barrier.wait().unwrap();
                    }
                });
            }
        });
    }
}

#[test]
fn poison_wakes_sleepers_and_spinners() {
    for round in 0..200 {
        let stop = Arc::new(Stop::default());
        let spin = if round % 2 == 0 { 0 } else { 1 << 16 };
        let barriers = [Barrier::new(3, spin, &stop), Barrier::new(2, 0, &stop)];
        thread::scope(|scope| {
            let first = scope.spawn(|| barriers[0].wait());
            let second = scope.spawn(|| barriers[0].wait());
            let third = scope.spawn(|| barriers[1].wait());
            if round % 3 > 0 {
                thread::yield_now();
            }
            stop.poison(format!("round {round}"));
            stop.poison("later".to_owned());
            assert!(first.join().unwrap().is_err());
            assert!(second.join().unwrap().is_err());
            assert!(third.join().unwrap().is_err());
        });
        assert!(barriers[1].wait().is_err());
        assert_eq!(stop.reason(), Some(format!("round {round}")));
    }
}
