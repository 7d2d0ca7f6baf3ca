use super::{FormRules, Legal, StepCx};
use crate::names::AxisList;
use crate::program::Cost;
use crate::program::meaning::{Collective, Numbers};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// Gives every member what one of them has (StableHLO's collective_broadcast).
///
/// The out has the input's type.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Broadcast {
    /// The group.
    pub axes: AxisList,
    /// Group index of the member whose input it is.
    pub root: usize,
}

impl FormRules for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        let members = step.group(&self.axes)?;
        step.member(members, self.root)?;
        step.keeps(0, |_| {})
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let sent = if step.members() > 1 { step.bytes_read() } else { 0 };
        Cost { flops: 0, bytes: step.bytes(), sent }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("over {} from {} of {}", step.over(), self.root, step.names())
    }
}

impl Collective for Broadcast {
    fn meet(&self, _: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        vec![vec![inputs[self.root][0].clone()]; inputs.len()]
    }
}

impl Spell for Broadcast {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        Ok(vec![to.sent_from(&self.axes, self.root, &inputs[0])])
    }
}
