use super::{FormRules, Legal, StepCx};
use crate::program::Cost;
use crate::program::meaning::{Given, Here, Local, Numbers};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use serde::{Deserialize, Serialize};

/// The inputs, once all of them are there. Never merged with equal steps, so that what is computed from
/// an out is computed anew (StableHLO's optimization_barrier).
///
/// Each out has its input's type; there is at least one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Barrier;

impl FormRules for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn renames(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.pairs()?;
        (0..step.step.inputs.len()).try_for_each(|i| step.keeps(i, |_| {}))
    }

    fn cost(&self, _: &StepCx<'_>) -> Cost {
        Cost::default()
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        step.names()
    }
}

impl Local for Barrier {
    fn apply(&self, _: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        inputs.iter().map(|input| input.numbers.clone()).collect()
    }
}

impl Spell for Barrier {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        Ok(to.barrier(inputs))
    }
}
