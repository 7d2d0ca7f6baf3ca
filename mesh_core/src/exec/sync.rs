//! What threads share memory and wait with. No other file of `exec/` names the standard library's.
//!
//! `mesh_core/tests/interleavings` compiles the files that hold barriers, bells, mailboxes and the pool
//! against another `sync`, whose types a model checker provides. So what these files use stands here
//! under the checker's names, and with its signatures.

use std::cell;

pub(super) use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
pub(super) use std::thread;

/// What does not keep alive what it leads to.
#[cfg(feature = "xla")]
pub(super) use std::sync::Weak;

/// Channels.
#[cfg(any(test, feature = "mpi"))]
pub(super) use std::sync::mpsc;

/// How often a thread lets others run before it sleeps. Where processors share cores, that is ten
/// times faster than sleeping and being woken.
const YIELDS: u32 = 16;

/// The same where each has a core of its own: about half a millisecond in all, since being woken
/// takes tens of microseconds.
const OWN_YIELDS: u32 = 128;

/// The lock, whether or not a thread panicked holding it: none of ours guards an invariant that a
/// panic could break.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether `ready` becomes true within the time for which a thread looks before it sleeps: `spin` times,
/// then it lets others run, again and again. `spin` is 0 where threads share cores.
pub(super) fn spin_until(spin: u32, ready: impl Fn() -> bool) -> bool {
    for _ in 0..if spin > 0 { OWN_YIELDS } else { YIELDS } {
        for _ in 0..spin {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        if ready() {
            return true;
        }
        thread::yield_now();
    }
    false
}

/// Memory that threads read and write by turns, which something else gives them.
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(cell::UnsafeCell::new(value))
    }

    /// Gives `read` the address, to read from.
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Gives `write` the address, to write to.
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
