//! How threads wait for each other, and how all waiting ends once something has gone wrong.

use super::super::sync::{
    Arc, AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, PoisonError, fence, lock, spin_until,
};

/// Some processor failed, so nobody goes on. The reason is kept where the failure was reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stopped;

/// On a cache line of its own, so that what one thread writes does not slow another's reads.
#[repr(align(128))]
#[derive(Default, Debug)]
pub(in crate::exec) struct Padded<T>(pub(in crate::exec) T);

/// Where threads sleep until something is so.
#[derive(Default, Debug)]
pub(in crate::exec) struct Bell {
    sleepers: Padded<AtomicUsize>,
    lock: Mutex<()>,
    condvar: Condvar,
}

impl Bell {
    /// Returns when `ready` is true, having looked for a while before going to sleep; `spin` is how
    /// often a thread looks before it lets others run, 0 where threads share cores.
    pub(in crate::exec) fn wait(&self, spin: u32, ready: impl Fn() -> bool) {
        if spin_until(spin, &ready) {
            return;
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
    reason: Mutex<Option<String>>,
    bells: Mutex<Vec<Arc<Bell>>>,
}

impl Stop {
    /// A bell that is rung by [`poison`](Self::poison).
    pub(in crate::exec) fn bell(&self) -> Arc<Bell> {
        let bell = Arc::new(Bell::default());
        lock(&self.bells).push(Arc::clone(&bell));
        bell
    }

    /// Whether somebody has called [`poison`](Self::poison).
    pub(in crate::exec) fn is_stopped(&self) -> bool {
        self.stopped.0.load(Ordering::Acquire)
    }

    /// Why everybody stopped.
    pub(in crate::exec) fn reason(&self) -> Option<String> {
        if self.is_stopped() { lock(&self.reason).clone() } else { None }
    }

    /// Wakes everybody who waits, for good.
    pub(in crate::exec) fn poison(&self, reason: String) {
        // A second reason is mostly an effect of the first.
        lock(&self.reason).get_or_insert(reason);
        self.stopped.0.store(true, Ordering::Release);
        lock(&self.bells).iter().for_each(|bell| bell.ring());
    }
}
