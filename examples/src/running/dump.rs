//! Shows tensors after every step.

use crate::report::complain;
use mesh_optimize::training::{BoxError, Step, Watcher};

/// Writes probes to standard error.
pub(super) struct Dump {
    /// The number of metrics that are fetches. The probes follow them.
    pub(super) fetched: usize,
}

impl Watcher for Dump {
    fn name(&self) -> &str {
        "dump"
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let number = step.position.step;
        for (label, value) in step.metrics.iter().skip(self.fetched) {
            complain(&format!("step {number}  {label}: {value}"));
        }
        for (label, array) in step.tensors {
            let (dtype, shape) = (array.dtype(), array.shape());
            complain(&format!("step {number}  {label}: {dtype}{shape:?}\n{}", array.to_f64()));
        }
        Ok(())
    }
}
