use super::{FormRules, Legal, StepCx};
use crate::names::{AxisList, DType, ReduceKind};
use crate::program::meaning::{Collective, Numbers, each};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use crate::program::{Cost, Operand};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// Folds each input over the group; every member gets every result whole.
///
/// As many outs as inputs, at least one, of the inputs' types. The kind suits the dtype as in
/// [`Reduce`](super::Reduce), and sums and products are not bf16: a pending value is held in its
/// reduction dtype. Selections are folded over groups only: of each element, one member has the value.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct AllReduce {
    /// How to fold.
    pub kind: ReduceKind,
    /// In which order.
    pub order: FoldOrder,
    /// The group.
    pub axes: AxisList,
}

/// In which order an all-reduce folds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum FoldOrder {
    /// From the first member of the group to the last.
    #[default]
    Group,
    /// The inputs, one after the other as they lie in memory, are cut into as many shares as there are
    /// members, share `k` from element `n k / members / 64 * 64` on; it is folded from member `k + 1` on, around to
    /// member `k`: what a ring of neighbours does that pass on what they have.
    Ring,
}

impl FoldOrder {
    /// Where shares begin.
    pub const SHARE: usize = 64;

    /// The member from which on an element of so many is folded.
    fn first(self, element: usize, total: usize, members: usize) -> usize {
        let begins = |k: &usize| total * k / members / Self::SHARE * Self::SHARE <= element;
        match self {
            Self::Group => 0,
            Self::Ring => (0..members).rev().find(begins).map_or(0, |share| (share + 1) % members),
        }
    }
}

impl FormRules for AllReduce {
    fn name(&self) -> &'static str {
        "all_reduce"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn in_place(&self, _inputs: &[Operand], out: usize, input: usize) -> bool {
        out == input
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.pairs()?;
        for i in 0..step.step.inputs.len() {
            step.fold_over(self.kind, &self.axes, i)?;
            step.keeps(i, |_| {})?;
        }
        Ok(())
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let elements = step.step.reads().map(|input| step.value(input).len() as u64).sum();
        let sent = 2 * step.of_others(step.bytes_read());
        Cost { flops: step.of_others(elements), bytes: step.bytes(), sent }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let ring = if self.order == FoldOrder::Ring { " in a ring" } else { "" };
        format!("{} over {}{ring} of {}", self.kind, step.over(), step.names())
    }
}

impl Collective for AllReduce {
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        let members = inputs.len();
        let total = (0..step.step.inputs.len()).map(|i| step.input(i).len()).sum();
        let mut before = 0;
        let folded = |i| {
            let (value, strides) = (step.input(i), step.input(i).strides());
            let mut out = Numbers::zeros(step.shape(i));
            each(step.shape(i), |point| {
                let lies = zip(point, &strides).map(|(i, stride)| i * stride).sum::<usize>();
                let first = self.order.first(before + lies, total, members);
                let around = (0..members).map(|k| inputs[(first + k) % members][i][point]);
                let fold = |a, b| self.kind.fold(value.dtype, a, b);
                out[point] = around.reduce(fold).unwrap_or_default();
            });
            before += value.len();
            out
        };
        vec![(0..step.step.inputs.len()).map(folded).collect(); members]
    }
}

/// The members' only inputs, folded from the first member to the last.
pub(super) fn folded(kind: ReduceKind, dtype: DType, inputs: &[Vec<&Numbers>]) -> Numbers {
    let mut out = inputs[0][0].clone();
    for own in &inputs[1..] {
        zip(&mut out, own[0]).for_each(|(out, &x)| *out = kind.fold(dtype, *out, x));
    }
    out
}

impl Spell for AllReduce {
    /// In XLA's order.
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let folded = |x| to.all_reduced(self.kind, &self.axes, x);
        Ok(inputs.iter().map(folded).collect())
    }
}
