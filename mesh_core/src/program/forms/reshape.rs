use super::{FormRules, Legal, StepCx, ensure};
use crate::program::Cost;
use crate::program::meaning::{Given, Here, Local, Numbers, reshaped};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// The same elements in declared order, under other extents.
///
/// Dtype and number of elements stay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Reshape;

impl FormRules for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn renames(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        step.one_dtype()?;
        let (from, to) = (step.input(0).len(), step.out(0).len());
        ensure!(from == to, "{from} elements become {to}");
        Ok(())
    }

    /// In declared order a plan makes the out a name for the input's memory.
    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let free = step.input(0).in_order() && step.out(0).in_order();
        Cost { bytes: if free { 0 } else { step.bytes() }, ..Cost::default() }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        step.names()
    }
}

impl Local for Reshape {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        vec![reshaped(inputs[0].numbers.view(), step.shape(0))]
    }
}

impl Spell for Reshape {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        Ok(vec![to.reshaped(&inputs[0], step.shape(0))])
    }
}
