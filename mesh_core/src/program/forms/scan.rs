use super::cx::folds;
use super::{FormRules, Legal, StepCx};
use crate::names::ReduceKind;
use crate::program::Cost;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Along, Padding, Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// `out[.., i, ..] = fold(kind) over the input's positions 0..=i along dim`, one after another.
/// StableHLO: reduce_window as long as the dim, padded on one side.
///
/// Input and out have one type; the kind suits the dtype as in [`Reduce`](super::Reduce).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
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

impl Local for Scan {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (dim, held) = (usize::from(self.dim), step.out(0).dtype.reduction());
        let mut out = Numbers::zeros(step.shape(0));
        let mut lines = step.shape(0).to_vec();
        let line = std::mem::replace(&mut lines[dim], 1);
        let mut at = lines.clone();
        each(&lines, |point| {
            at.copy_from_slice(point);
            let mut before = self.kind.start(held);
            for i in 0..line {
                at[dim] = if self.reverse { line - 1 - i } else { i };
                let after = self.kind.fold(held, before, inputs[0].numbers[&at[..]]);
                out[&at[..]] = if self.exclusive { before } else { after };
                before = after;
            }
        });
        vec![out]
    }
}

impl Spell for Scan {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (out, dim) = (step.out(0), usize::from(self.dim));
        let (rank, line) = (out.extents.len(), out.extents[dim]);
        let sides = |first: i64, last: i64| match self.reverse {
            true => Padding::around(last, first),
            false => Padding::around(first, last),
        };
        let mut held = to.held(&inputs[0]);
        if self.exclusive {
            let mut padding = vec![Padding::default(); rank];
            padding[dim] = sides(1, -1);
            held = to.padded(&held, self.kind.start(out.dtype.reduction()), &padding);
        }
        let mut windows = vec![Along::EACH; rank];
        windows[dim] = Along { size: line, stride: 1, padding: sides(line as i64 - 1, 0) };
        let folded = to.windowed(self.kind, &held, &windows);
        Ok(vec![to.stored(&folded, out.dtype.into())])
    }
}
