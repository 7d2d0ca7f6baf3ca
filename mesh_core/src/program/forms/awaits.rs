use super::cx::joined;
use super::{FormRules, Legal, StepCx, ensure};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use crate::program::{Cost, Operand, Step, ValueId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Waits for a collective, which is therefore only begun where it stands: what stands between the two
/// runs beside it. (StableHLO's async_start and async_done.)
///
/// Inputs are the collective's inputs, then its outs, which nobody uses before. The collective stands
/// before and is run by the same processors. Awaits stand in the order of their collectives, one each
/// at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Await {
    /// How many of the inputs are the collective's outs.
    pub outs: usize,
}

impl Await {
    /// The await of a collective.
    pub fn of(collective: &Step, rank: impl Fn(ValueId) -> usize) -> Step {
        let outs = collective.outs.iter().map(|&out| Operand::whole(out, rank(out)));
        let inputs: SmallVec<[_; 2]> = collective.inputs.iter().cloned().chain(outs).collect();
        collective.instead(Self { outs: collective.outs.len() }, inputs, &[])
    }

    /// What it waits for: the collective's outs, of the inputs of its step.
    pub fn begun<'a>(&self, step: &'a Step) -> impl Iterator<Item = ValueId> + 'a {
        step.reads().skip(step.inputs.len().saturating_sub(self.outs))
    }
}

impl FormRules for Await {
    fn name(&self) -> &'static str {
        "await"
    }

    fn has_effect(&self) -> bool {
        true
    }

    /// The rest is a matter of where it stands; see the verifier.
    fn check(&self, step: &StepCx<'_>) -> Legal {
        let (count, made) = (step.step.inputs.len(), step.step.outs.len());
        ensure!(self.outs <= count && made == 0, "{count} inputs and {made} outs");
        Ok(())
    }

    fn cost(&self, _: &StepCx<'_>) -> Cost {
        Cost::default()
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        joined(self.begun(step.step).map(|value| format!("{value:?}")))
    }
}

impl Spell for Await {
    /// Nothing: compilers say themselves what runs beside a collective.
    fn spell(
        &self,
        _: &StepCx<'_>,
        _: &mut Writer<'_>,
        _: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        Ok(Vec::new())
    }
}
