use super::{FormRules, Legal, StepCx, ensure};
use crate::array::Array;
use crate::program::meaning::{Given, Here, Local, Numbers};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use crate::program::{Cost, Elements, ElementsMut, Opaque, Value, View, ViewMut};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// Whatever a user's kernel makes of the inputs. StableHLO: custom_call of the kernel's name.
///
/// All values are in declared order; there is at least one out.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
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

impl Local for Call {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let types: Vec<_> = step.step.outs.iter().map(|&out| step.value(out)).collect();
        let arrays = zip(step.step.reads(), inputs);
        let arrays: Vec<_> =
            arrays.map(|(id, x)| Array::from_f64(step.value(id).dtype, x.numbers)).collect();
        let mut outs: Vec<_> =
            types.iter().map(|out| Array::zeros(out.dtype, &out.extents)).collect();
        let view = |array| View { extents: Array::shape(array), elements: Elements::of(array) };
        let views: Vec<_> = arrays.iter().map(view).collect();
        let room = zip(&types, &mut outs).map(|(out, array)| ViewMut {
            extents: &out.extents,
            elements: ElementsMut::of(array),
        });
        let mut room: Vec<_> = room.collect();
        self.kernel.run(&views, &mut room);
        outs.iter().map(Array::to_f64).collect()
    }
}

impl Spell for Call {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let values: Vec<&Value> = step.step.reads().map(|id| step.value(id)).collect();
        let outs: Vec<&Value> = step.step.outs.iter().map(|&id| step.value(id)).collect();
        let name = self.kernel.name();
        let body = self.kernel.stablehlo(&values, &outs).ok_or_else(|| {
            format!("kernel `{name}` has no spelling in StableHLO: give it `UserKernel::stablehlo`")
        })?;
        Ok(to.call_text(name, &body, inputs, &outs))
    }
}
