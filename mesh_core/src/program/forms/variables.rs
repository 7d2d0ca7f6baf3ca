use super::{FormRules, Legal, StepCx, ensure};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use crate::program::{Cost, Value, VariableId};
use serde::{Deserialize, Serialize};

/// A variable's slice as it was when the call started, wherever the step stands.
///
/// The out has the variable's dtype and extents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Read {
    /// Which.
    pub variable: VariableId,
}

impl FormRules for Read {
    fn name(&self) -> &'static str {
        "read"
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(0, 1)?;
        of_variable(step, self.variable, step.out(0))
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        copy(step.out(0))
    }

    fn text(&self, _: &StepCx<'_>) -> String {
        format!("{:?}", self.variable)
    }
}

/// Sets a variable's slice when the call ends.
///
/// The input has the variable's dtype and extents. A program writes a variable once at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Write {
    /// Which.
    pub variable: VariableId,
}

impl FormRules for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn has_effect(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 0)?;
        of_variable(step, self.variable, step.input(0))
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        copy(step.input(0))
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("{:?} = {}", self.variable, step.names())
    }
}

fn of_variable(step: &StepCx<'_>, variable: VariableId, found: &Value) -> Legal {
    let wanted = step.variables.get(variable.index());
    let wanted = wanted.ok_or_else(|| format!("there is no {variable:?}"))?;
    let fits = (found.dtype, &found.extents) == (wanted.dtype, &wanted.extents);
    ensure!(fits, "{found} is not {}{:?}", wanted.dtype, wanted.extents.as_slice());
    Ok(())
}

/// In declared order a plan makes the value a name for the variable's memory.
fn copy(value: &Value) -> Cost {
    let bytes = if value.in_order() { 0 } else { 2 * value.bytes() as u64 };
    Cost { bytes, ..Cost::default() }
}

impl Spell for Read {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        _: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let old = to.old.get(self.variable.index()).cloned().flatten();
        Ok(vec![old.ok_or("nobody has given the variable")?])
    }
}

impl Spell for Write {
    fn spell(
        &self,
        _: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        if let Some(new) = to.new.get_mut(self.variable.index()) {
            *new = inputs.first().cloned();
        }
        Ok(Vec::new())
    }
}
