//! What all random draws of a machine follow from.

use super::sync::{Arc, AtomicU64, Ordering};

/// The seed of a machine, shared by its kernels. It is set between calls only, so that all
/// processors draw from one.
#[derive(Clone, Debug)]
pub(crate) struct Seed(Arc<AtomicU64>);

impl Seed {
    /// A seed of its own.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        // Starting a call is what orders this after `set`.
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it for all who share it.
    pub(crate) fn set(&self, seed: u64) {
        self.0.store(seed, Ordering::Relaxed);
    }
}
