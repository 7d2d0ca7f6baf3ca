use super::cx::folds;
use super::{FormRules, Legal, StepCx};
use crate::names::ReduceKind;
use crate::program::Cost;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Padding, Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// `out[.., i, ..] = fold(kind) over the input's positions 0..=i along dim`, one after another.
/// StableHLO: the folds of 1, 2, 4, … neighbours, each of two of the folds before.
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
        let (line, start) = (out.extents[dim], self.kind.start(out.dtype.reduction()));
        // A dim whose elements come from so many positions before.
        let moved = |to: &mut Writer<'_>, x: &Tensor, by: usize| {
            let (first, last) = (by as i64, -(by as i64));
            let mut padding = vec![Padding::default(); out.extents.len()];
            padding[dim] = match self.reverse {
                true => Padding::around(last, first),
                false => Padding::around(first, last),
            };
            to.padded(x, start, &padding)
        };
        let mut folded = to.held(&inputs[0]);
        if self.exclusive {
            folded = moved(to, &folded, 1);
        }
        let mut neighbours = 1;
        while neighbours < line {
            let before = moved(to, &folded, neighbours);
            folded = to.folded_pair(self.kind, &before, &folded);
            neighbours *= 2;
        }
        Ok(vec![to.stored(&folded, out.dtype.into())])
    }
}
