//! What `exec/sync.rs` has, as the model checker loom provides it.
//!
//! Before it sleeps a thread looks once instead of many times: more looks would only make more orders to
//! try, which all end with the thread awake or asleep.

pub(super) use loom::cell::UnsafeCell;
pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock};
pub(super) use loom::thread;
pub(super) use std::sync::{Arc, PoisonError};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn spin_until(_: u32, ready: impl Fn() -> bool) -> bool {
    ready()
}
