use super::{FormRules, Legal, StepCx};
use crate::names::AxisList;
use crate::program::Cost;
use crate::program::meaning::{Collective, Numbers};
use serde::{Deserialize, Serialize};

/// Member `i` gets the input of member `i - shift`; zeros come from beyond the ends unless `wrap`.
///
/// The out has the input's type.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Permute {
    /// The group.
    pub axes: AxisList,
    /// How far values travel along the group index.
    pub shift: i64,
    /// Whether the ends meet.
    pub wrap: bool,
}

impl FormRules for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }

    fn axes(&self) -> Option<&AxisList> {
        Some(&self.axes)
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        step.group(&self.axes)?;
        step.keeps(0, |_| {})
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let (shift, group) = (self.shift.unsigned_abs(), step.members());
        let stays = if self.wrap { shift % group == 0 } else { shift == 0 || shift >= group };
        let sent = if stays { 0 } else { step.bytes_read() };
        Cost { flops: 0, bytes: step.bytes(), sent }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let ends = if self.wrap { "wrapping" } else { "zeros in" };
        format!("{:+} {ends} over {} of {}", self.shift, step.over(), step.names())
    }
}

impl Collective for Permute {
    fn meet(&self, step: &StepCx<'_>, inputs: &[Vec<&Numbers>]) -> Vec<Vec<Numbers>> {
        let members = inputs.len() as i64;
        let zeros = Numbers::zeros(step.shape(0));
        let source = |member: i64| {
            let from = member.saturating_sub(self.shift);
            let around = member.wrapping_sub(self.shift % members).rem_euclid(members);
            match self.wrap || (0..members).contains(&from) {
                true => inputs[around as usize][0],
                false => &zeros,
            }
        };
        (0..members).map(|member| vec![source(member).clone()]).collect()
    }
}
