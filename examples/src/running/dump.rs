//! Tensors of every step, shown.

use mesh_optimize::training::{BoxError, Step, Watcher};
use std::io::{self, Write};

/// Writes what is probed to standard error.
pub(super) struct Dump {
    /// How many metrics are fetches; those that follow are probes.
    pub(super) fetched: usize,
}

impl Watcher for Dump {
    fn name(&self) -> &str {
        "dump"
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), BoxError> {
        let (number, mut out) = (step.position.step, io::stderr().lock());
        for (label, value) in step.metrics.iter().skip(self.fetched) {
            writeln!(out, "step {number}  {label}: {value}")?;
        }
        for (label, array) in step.tensors {
            let (dtype, shape) = (array.dtype(), array.shape());
            writeln!(out, "step {number}  {label}: {dtype}{shape:?}\n{}", array.to_f64())?;
        }
        Ok(())
    }
}
