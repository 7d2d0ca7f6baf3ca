use super::{FormRules, Legal, StepCx, ensure};
use crate::program::{Cost, Opaque, Value};

/// Whatever a user's kernel makes of the inputs. StableHLO: custom_call of the kernel's name.
///
/// All values are in declared order; there is at least one out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    /// How.
    pub kernel: Opaque,
}

impl FormRules for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        ensure!(!step.step.outs.is_empty(), "there are no outs");
        for id in step.step.values() {
            let value = step.value(id);
            ensure!(value.in_order(), "{id:?} is {value}, not in declared order");
        }
        Ok(())
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let inputs: Vec<&Value> = step.step.reads().map(|id| step.value(id)).collect();
        let outs: Vec<&Value> = step.step.outs.iter().map(|&id| step.value(id)).collect();
        Cost { flops: self.kernel.flops(&inputs, &outs), bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("{} ({:?}) of {}", self.kernel.name(), self.kernel, step.names())
    }
}
