use super::{FormRules, Legal, StepCx};
use crate::names::{AxisList, ReduceKind};
use crate::program::{Cost, Operand};

/// Folds each input over the group; every member gets every result whole.
///
/// As many outs as inputs, at least one, of the inputs' types. The kind suits the dtype as in
/// [`Reduce`](super::Reduce), and sums and products are not bf16: a pending value is held in its
/// reduction dtype. Selections are folded over groups only: of each element, one member has the value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AllReduce {
    /// How to fold.
    pub kind: ReduceKind,
    /// In which order.
    pub order: FoldOrder,
    /// The group.
    pub axes: AxisList,
}

/// In which order an all-reduce folds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FoldOrder {
    /// From the first member of the group to the last.
    #[default]
    Group,
    /// The inputs, one after the other, are cut into as many shares as there are members, share `k`
    /// from element `n k / members / 64 * 64` on; it is folded from member `k + 1` on, around to
    /// member `k`: what a ring of neighbours does that pass on what they have.
    Ring,
}

impl FoldOrder {
    /// Where shares begin.
    pub const SHARE: usize = 64;
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
