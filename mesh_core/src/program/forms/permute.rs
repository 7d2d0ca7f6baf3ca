use super::{FormRules, Legal, StepCx};
use crate::names::AxisList;
use crate::program::Cost;

/// Member `i` gets the input of member `i - shift`; zeros come from beyond the ends unless `wrap`.
///
/// The out has the input's type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
