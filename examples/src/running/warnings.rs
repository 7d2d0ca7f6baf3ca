//! Writes the warnings of a run.

use crate::report::remark;
use mesh_optimize::training::{BoxError, Position, Start, Watcher};

/// Writes warnings to standard error.
pub(super) struct Warnings;

impl Watcher for Warnings {
    fn name(&self) -> &str {
        "warnings"
    }

    fn start(&mut self, run: &Start<'_>, _: Option<&str>) -> Result<(), BoxError> {
        run.refused.iter().for_each(|refused| remark(&format!("warning: {}", refused.error)));
        Ok(())
    }

    fn warning(&mut self, _: Position, problem: &str) -> Result<(), BoxError> {
        remark(&format!("warning: {problem}"));
        Ok(())
    }
}
