use super::{FormRules, Legal, StepCx, ensure};
use crate::names::AxisList;
use crate::program::Cost;
use crate::program::meaning::{Collective, Numbers, joined, part};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// Cuts along one dim, gives part `k` to member `k`, concatenates what arrives along another.
///
/// `split` and `concat` differ; the group size divides the input's extent along `split`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct AllToAll {
    /// The group.
    pub axes: AxisList,
    /// Dim that is cut.
    pub split: u8,
    /// Dim of the concatenation.
    pub concat: u8,
}

impl FormRules for AllToAll {
    fn name(&self) -> &'static str {
        "all_to_all"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        let (parts, split, concat) = (step.group(&self.axes)?, self.split, self.concat);
        ensure!(split != concat, "cuts and joins along dim {split}");
        step.dim(concat)?;
        step.divides(split, parts)?;
        step.keeps(0, |extents| {
            extents[usize::from(split)] /= parts;
            extents[usize::from(concat)] *= parts;
        })
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: 0, bytes: step.bytes(), sent: step.of_others(step.bytes_read()) }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let Self { split, concat, .. } = self;
        format!("dim {split} to dim {concat} over {} of {}", step.over(), step.names())
    }
}

impl Collective for AllToAll {
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        let members = inputs.len();
        let to = |member| {
            let parts = inputs.iter().map(|own| part(own[0], self.split, member, members));
            vec![joined(step.shape(0), self.concat, &parts.collect::<Vec<_>>())]
        };
        (0..members).map(to).collect()
    }
}

impl Spell for AllToAll {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let dims = (self.split.into(), self.concat.into());
        Ok(vec![to.exchanged(&self.axes, dims, &inputs[0])])
    }
}
