use super::cx::folds;
use super::{FormRules, Labels, Legal, StepCx};
use crate::names::ReduceKind;
use crate::program::Cost;
use crate::program::arithmetic::widest;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Spell, Tensor, Writer, those};
use serde::{Deserialize, Serialize};

/// `out[i] = fold(kind) of the input over the labels that the out lacks`.
///
/// Input and out have one dtype; all and any fold bool, the other kinds numbers. Every result label is
/// in the input.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Reduce {
    /// How to fold.
    pub kind: ReduceKind,
}

impl FormRules for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(1, 1)?;
        step.one_dtype()?;
        folds(self.kind, step.out(0).dtype)?;
        let mut labels = Labels::new(step.out(0));
        labels.operand("the input", &step.step.inputs[0], step.input(0))?;
        labels.covered(&step.step.inputs, &[])
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: step.input(0).len() as u64, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("{} of {}", self.kind, step.labelled(0))
    }
}

impl Local for Reduce {
    /// In whatever order: floats are folded in f64.
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (shape, dtype) = (step.shape(0), widest(step.out(0).dtype));
        let mut out = Numbers::from_elem(shape, self.kind.start(dtype));
        each(&step.space(), |point| {
            let out = &mut out[&point[..shape.len()]];
            *out = self.kind.fold(dtype, *out, inputs[0].at(point));
        });
        vec![out]
    }
}

impl Spell for Reduce {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (out, labels) = (step.out(0), &step.step.inputs[0].dims);
        let kept: Vec<u8> = (0..).take(out.extents.len()).collect();
        let gone = (0..labels.len()).filter(|&dim| !kept.contains(&labels[dim]));
        let gone: Vec<usize> = gone.collect();
        let held = to.held(&inputs[0]);
        let folded = to.folded(self.kind, &held, &gone);
        let folded = to.arranged(&folded, &those(labels, &kept, true), &kept);
        Ok(vec![to.stored(&folded, out.dtype.into())])
    }
}
