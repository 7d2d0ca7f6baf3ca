use super::cx::folds;
use super::{FormRules, Legal, StepCx};
use crate::names::ReduceKind;
use crate::program::Cost;

/// `out[.., i, ..] = fold(kind) over the input's positions 0..=i along dim`, one after another.
/// StableHLO: reduce_window as long as the dim, padded on one side.
///
/// Input and out have one type; the kind suits the dtype as in [`Reduce`](super::Reduce).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scan {
    /// How to fold.
    pub kind: ReduceKind,
    /// Position of the dim among the input's.
    pub dim: u8,
    /// Whether position `i` itself is left out.
    pub exclusive: bool,
    /// Whether to fold from the last position down.
    pub reverse: bool,
}

impl FormRules for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        folds(self.kind, step.input(0).dtype)?;
        step.dim(self.dim)?;
        step.keeps(0, |_| {})
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: step.input(0).len() as u64, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let before = if self.exclusive { " exclusive" } else { "" };
        let order = if self.reverse { " reverse" } else { "" };
        format!("{}{before}{order} dim {} of {}", self.kind, self.dim, step.names())
    }
}
