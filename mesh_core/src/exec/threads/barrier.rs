//! A barrier that spins, then sleeps, and that can be stopped for good.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{hint, thread};

use super::super::comm::Stopped;

/// The lock, whether or not a thread panicked holding it: none of ours guards an invariant that a
/// panic could break.
pub(in crate::exec) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a thread lets others run before it sleeps. Where processors share cores, that is ten
/// times faster than sleeping and being woken.
const YIELDS: u32 = 16;

/// The same where each has a core of its own: about half a millisecond in all, since being woken
/// takes tens of microseconds.
const OWN_YIELDS: u32 = 128;

/// On a cache line of its own, so that what one thread writes does not slow another's reads.
#[repr(align(128))]
#[derive(Default, Debug)]
struct Padded<T>(T);

/// Where threads sleep until something is so.
#[derive(Default, Debug)]
pub(in crate::exec) struct Bell {
    sleepers: Padded<AtomicUsize>,
    lock: Mutex<()>,
    condvar: Condvar,
}

impl Bell {
    /// Returns when `ready` is true, having looked `spin` times and let others run, again and again,
    /// before going to sleep.
    pub(in crate::exec) fn wait(&self, spin: u32, ready: impl Fn() -> bool) {
        for _ in 0..if spin > 0 { OWN_YIELDS } else { YIELDS } {
            for _ in 0..spin {
                if ready() {
                    return;
                }
                hint::spin_loop();
            }
            if ready() {
                return;
            }
            thread::yield_now();
        }
        let mut guard = lock(&self.lock);
        self.sleepers.0.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `ring`: either we see what the ringer stored, or it sees us.
        fence(Ordering::SeqCst);
        while !ready() {
            guard = self.condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes everybody. Call after the store that makes `ready` true.
    pub(in crate::exec) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.0.load(Ordering::Relaxed) > 0 {
            // Whoever counted itself a sleeper has `ready` still to check or sleeps already.
            drop(lock(&self.lock));
            self.condvar.notify_all();
        }
    }
}

/// What ends all waiting once something has gone wrong. The first reason stands.
#[derive(Default, Debug)]
pub(in crate::exec) struct Stop {
    stopped: Padded<AtomicBool>,
    reason: OnceLock<String>,
    bells: Mutex<Vec<Arc<Bell>>>,
}

impl Stop {
    /// A bell that is rung by [`poison`](Self::poison).
    pub(super) fn bell(&self) -> Arc<Bell> {
        let bell = Arc::new(Bell::default());
        lock(&self.bells).push(Arc::clone(&bell));
        bell
    }

    /// Whether somebody has called [`poison`](Self::poison).
    pub(in crate::exec) fn is_stopped(&self) -> bool {
        self.stopped.0.load(Ordering::Acquire)
    }

    /// Why everybody stopped.
    pub(in crate::exec) fn reason(&self) -> Option<&str> {
        if self.is_stopped() { self.reason.get().map(String::as_str) } else { None }
    }

    /// Wakes everybody who waits, for good.
    pub(in crate::exec) fn poison(&self, reason: String) {
        // A second reason is mostly an effect of the first.
        let _ = self.reason.set(reason);
        self.stopped.0.store(true, Ordering::Release);
        lock(&self.bells).iter().for_each(|bell| bell.ring());
    }
}

/// Where the members of a group wait for each other, any number of times.
pub(in crate::exec) trait Barrier: Send + Sync {
    /// How often `member` has met the others; it wraps at a power of two.
    fn rounds(&self, member: usize) -> u32;

    /// Waits, as `member`, for the others. What any of them did before, all of them see after.
    fn wait(&self, member: usize) -> Result<(), Stopped>;
}

/// For threads: who comes last lets the others go.
#[derive(Debug)]
pub(super) struct ThreadBarrier {
    members: u32,
    spin: u32,
    arrived: Padded<AtomicU32>,
    generation: Padded<AtomicU32>,
    bell: Arc<Bell>,
    stop: Arc<Stop>,
}

impl ThreadBarrier {
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
}

impl Barrier for ThreadBarrier {
    /// It cannot change before `member` arrives, which saw its last change when it left.
    fn rounds(&self, _: usize) -> u32 {
        self.generation.0.load(Ordering::Relaxed)
    }

    fn wait(&self, member: usize) -> Result<(), Stopped> {
        if self.stop.is_stopped() {
            return Err(Stopped);
        }
        let generation = self.rounds(member);
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn nobody_passes_before_all_have_come() {
        for (members, spin) in [(1, 0), (2, 300), (3, 0), (8, 0), (8, 20)] {
            let stop = Arc::new(Stop::default());
            let barrier = ThreadBarrier::new(members, spin, &stop);
            let rounds = 500;
            let count = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..members {
                    scope.spawn(|| {
                        for round in 1..=rounds {
                            count.fetch_add(1, Ordering::Relaxed);
                            barrier.wait(0).unwrap();
                            assert_eq!(count.load(Ordering::Relaxed), round * members);
                            barrier.wait(0).unwrap();
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
            let barriers = [ThreadBarrier::new(3, spin, &stop), ThreadBarrier::new(2, 0, &stop)];
            let started = Instant::now();
            thread::scope(|scope| {
                let first = scope.spawn(|| barriers[0].wait(0));
                let second = scope.spawn(|| barriers[0].wait(0));
                let third = scope.spawn(|| barriers[1].wait(0));
                if round % 3 > 0 {
                    thread::yield_now();
                }
                stop.poison(format!("round {round}"));
                stop.poison("later".to_owned());
                assert!(first.join().unwrap().is_err());
                assert!(second.join().unwrap().is_err());
                assert!(third.join().unwrap().is_err());
            });
            assert!(barriers[1].wait(0).is_err());
            assert_eq!(stop.reason(), Some(format!("round {round}").as_str()));
            assert!(started.elapsed() < Duration::from_secs(1));
        }
    }
}
