use super::all_reduce::folded;
use super::{FormRules, Legal, StepCx};
use crate::names::{AxisList, ReduceKind};
use crate::program::Cost;
use crate::program::meaning::{Collective, Numbers, part};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// Folds over the group; each member gets its part along a dim.
///
/// The group size divides the input's extent along `dim`; the out's is a part. The kind suits the dtype
/// as in [`AllReduce`](super::AllReduce).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ReduceScatter {
    /// How to fold.
    pub kind: ReduceKind,
    /// The group.
    pub axes: AxisList,
    /// Dim that is cut.
    pub dim: u8,
}

impl FormRules for ReduceScatter {
    fn name(&self) -> &'static str {
        "reduce_scatter"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        let parts = step.fold_over(self.kind, &self.axes, 0)?;
        step.divides(self.dim, parts)?;
        step.keeps(0, |extents| extents[usize::from(self.dim)] /= parts)
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let flops = step.of_others(step.input(0).len() as u64);
        Cost { flops, bytes: step.bytes(), sent: step.of_others(step.bytes_read()) }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("{} dim {} over {} of {}", self.kind, self.dim, step.over(), step.names())
    }
}

impl Collective for ReduceScatter {
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        let (whole, members) = (folded(self.kind, step.input(0).dtype, inputs), inputs.len());
        (0..members).map(|k| vec![part(&whole, self.dim, k, members).to_owned()]).collect()
    }
}

impl Spell for ReduceScatter {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let cut = (&self.axes[..], usize::from(self.dim));
        Ok(vec![to.reduce_scattered(self.kind, cut, &inputs[0])])
    }
}
