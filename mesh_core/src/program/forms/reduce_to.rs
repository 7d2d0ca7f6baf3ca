use super::all_reduce::folded;
use super::{FormRules, Legal, StepCx};
use crate::names::{AxisList, ReduceKind};
use crate::program::Cost;
use crate::program::meaning::{Collective, Numbers};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// Folds over the group for one member; the others' out holds nothing. No StableHLO collective does
/// less than give it to all.
///
/// The out has the input's type. The kind suits the dtype as in [`AllReduce`](super::AllReduce).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ReduceTo {
    /// How to fold.
    pub kind: ReduceKind,
    /// The group.
    pub axes: AxisList,
    /// Group index of the member that gets the result.
    pub root: usize,
}

impl FormRules for ReduceTo {
    fn name(&self) -> &'static str {
        "reduce_to"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        let members = step.fold_over(self.kind, &self.axes, 0)?;
        step.member(members, self.root)?;
        step.keeps(0, |_| {})
    }

    /// What the root receives, and adds up.
    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let (from, input) = (step.members() - 1, step.input(0));
        let sent = from * input.bytes() as u64;
        Cost { flops: from * input.len() as u64, bytes: step.bytes(), sent }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("{} over {} to {} of {}", self.kind, step.over(), self.root, step.names())
    }
}

impl Collective for ReduceTo {
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        let mut outs = vec![Vec::new(); inputs.len()];
        outs[self.root] = vec![folded(self.kind, step.input(0).dtype, inputs)];
        outs
    }
}

impl Spell for ReduceTo {
    /// Given to all: who is not the root has a value that nobody uses.
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        Ok(vec![to.all_reduced(self.kind, &self.axes, &inputs[0])])
    }
}
