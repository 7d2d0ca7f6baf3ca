use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::program::meaning::{Given, Here, Local, Numbers, mapped};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use crate::program::{Body, Cost, Operand};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// `outs[k][i] = body(inputs at i).k` for every `i` of the outs' common extents.
///
/// The outs have equal extents and one result register each, of the out's dtype. Every label is below
/// the rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Map {
    /// One result per out.
    pub body: Body,
}

impl FormRules for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn in_place(&self, inputs: &[Operand], _out: usize, input: usize) -> bool {
        inputs[input].is_whole()
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        let inputs: Vec<_> = step.step.reads().map(|input| step.value(input).dtype).collect();
        results(&self.body, &inputs, step)?;
        let mut labels = Labels::new(step.out(0));
        for input in &step.step.inputs {
            labels.operand(format_args!("{:?}", input.value), input, step.value(input.value))?;
            labels.below_rank(format_args!("{:?}", input.value), input)?;
        }
        Ok(())
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let flops = (self.body.flops() * step.out(0).len()) as u64;
        Cost { flops, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        match step.step.inputs.is_empty() {
            true => self.body.to_string(),
            false => format!("{} of {}", self.body, step.all_labelled()),
        }
    }
}

impl Local for Map {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        mapped(&self.body, step.shape(0), |i, point| inputs[i].at(point))
    }
}

/// Whether a body over inputs of these dtypes gives the step's outs, which have equal extents.
pub(super) fn results(body: &Body, inputs: &[crate::names::DType], step: &StepCx<'_>) -> Legal {
    let outs = &step.step.outs;
    ensure!(!outs.is_empty(), "there is no out");
    body.check(inputs)?;
    let (results, count) = (body.results.len(), outs.len());
    ensure!(results == count, "{results} results, but {count} outs");
    for (result, &out) in body.results.iter().zip(outs) {
        let (made, dtype) = (body.code[usize::from(result.0)].1, step.value(out).dtype);
        ensure!(made == dtype, "{out:?} is {dtype}, but its result {made}");
        step.extents(out, &step.out(0).extents)?;
    }
    Ok(())
}

impl Spell for Map {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let extents = step.shape(0);
        let spread = |(x, input): (&Tensor, &Operand)| {
            let held = to.held(x);
            to.spread(&held, &input.dims, extents)
        };
        let inputs: Vec<_> = zip(inputs, &step.step.inputs).map(spread).collect();
        Ok(to.body(&self.body, extents, &inputs))
    }
}
