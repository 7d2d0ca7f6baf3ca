//! What `exec/sync.rs` has, as the model checker loom provides it.
//!
//! Nobody watches before sleeping but once, for that is what a state more or less is: whoever looks in
//! vain sleeps next, or is woken at once.

pub(super) use loom::cell::UnsafeCell;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock};
pub(super) use loom::thread;
pub(super) use std::sync::{Arc, PoisonError};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn watch(_: u32, ready: impl Fn() -> bool) -> bool {
    ready()
}
