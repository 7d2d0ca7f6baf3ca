use super::{FormRules, Legal, StepCx};
use crate::names::AxisList;
use crate::program::Cost;
use crate::program::meaning::{Collective, Numbers, joined};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// Concatenates the members' inputs along a dim, in the order of the group index.
///
/// The out's extent along `dim` is the group size times the input's; all else stays.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct AllGather {
    /// The group.
    pub axes: AxisList,
    /// Dim of the concatenation.
    pub dim: u8,
}

impl FormRules for AllGather {
    fn name(&self) -> &'static str {
        "all_gather"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        let parts = step.group(&self.axes)?;
        step.dim(self.dim)?;
        step.keeps(0, |extents| extents[usize::from(self.dim)] *= parts)
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let sent = (step.members() - 1) * step.bytes_read();
        Cost { flops: 0, bytes: step.bytes(), sent }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("dim {} over {} of {}", self.dim, step.over(), step.names())
    }
}

impl Collective for AllGather {
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        let parts: Vec<_> = inputs.iter().map(|own| own[0].view()).collect();
        vec![vec![joined(step.shape(0), self.dim, &parts)]; inputs.len()]
    }
}

impl Spell for AllGather {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        Ok(vec![to.all_gathered(&self.axes, self.dim.into(), &inputs[0])])
    }
}
