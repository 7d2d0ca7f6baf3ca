use super::cx::joined;
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::program::meaning::{Given, Here, Local, Numbers, mapped};
use crate::program::stablehlo::{Spell, Tensor, Writer};
use crate::program::{Body, Cost, Extents, Offset, Operand};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// `outs[k][i] = body(inputs at i).k` for every `i` of the outs' common extents.
///
/// The outs have equal extents and one result register each, of the out's dtype. Every label is below
/// the rank. Of an input with offsets, which has the extents of its labels or more, a part is read.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Map {
    /// One result per out.
    pub body: Body,
    /// Where reading begins, per input and dim of the input; of an input without offsets all is read.
    pub begin: Vec<Vec<Offset>>,
}

impl Map {
    /// A map of all of its inputs.
    pub fn new(body: Body) -> Self {
        Self { body, begin: Vec::new() }
    }

    /// Whether all of every input is read.
    pub(crate) fn reads_all(&self) -> bool {
        self.begin.iter().all(Vec::is_empty)
    }

    /// Where reading begins in an input, if a part of it is read.
    pub(crate) fn begin(&self, input: usize) -> Option<&[Offset]> {
        self.begin.get(input).map(Vec::as_slice).filter(|begin| !begin.is_empty())
    }

    fn check_input(&self, step: &StepCx<'_>, i: usize, labels: &mut Labels) -> Legal {
        let (input, value) = (&step.step.inputs[i], step.input(i));
        let name = format_args!("{:?}", input.value);
        labels.below_rank(name, input)?;
        match self.begin(i) {
            None => labels.operand(name, input, value),
            Some(begin) => {
                let read = read(input, &step.out(0).extents);
                step.inside(begin, &read, &value.extents).map_err(|p| format!("{name}: {p}"))
            }
        }
    }

    fn text_of_input(&self, step: &StepCx<'_>, i: usize) -> String {
        let from = self.begin(i).map(|begin| format!(" from {}", step.offsets(begin)));
        step.labelled(i) + &from.unwrap_or_default()
    }
}

/// How much of an input is read for outs of these extents.
fn read(input: &Operand, extents: &[usize]) -> Extents {
    input.dims.iter().map(|&label| extents[usize::from(label)]).collect()
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
        let (mut labels, count) = (Labels::new(step.out(0)), step.step.inputs.len());
        ensure!(self.begin.len() <= count, "offsets into {} of {count} inputs", self.begin.len());
        (0..count).try_for_each(|i| self.check_input(step, i, &mut labels))
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let flops = (self.body.flops() * step.out(0).len()) as u64;
        let skipped = |(i, input): (usize, &Operand)| {
            let value = step.input(i);
            let read = read(input, &step.out(0).extents).iter().product::<usize>();
            let part = read * value.dtype.size();
            self.begin(i).map_or(0, |_| value.bytes().saturating_sub(part))
        };
        let skipped: usize = step.step.inputs.iter().enumerate().map(skipped).sum();
        Cost { flops, bytes: step.bytes() - skipped as u64, sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        match step.step.inputs.is_empty() {
            true => self.body.to_string(),
            false => {
                let inputs = (0..step.step.inputs.len()).map(|i| self.text_of_input(step, i));
                format!("{} of {}", self.body, joined(inputs))
            }
        }
    }
}

impl Local for Map {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let begin: Vec<_> =
            (0..inputs.len()).map(|i| self.begin(i).map(|begin| here.at(begin))).collect();
        mapped(&self.body, step.shape(0), |i, point| match &begin[i] {
            None => inputs[i].at(point),
            Some(begin) => inputs[i].behind(begin, point),
        })
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
        let spread = |(i, (x, input)): (usize, (&Tensor, &Operand))| {
            let part = self.begin(i).map(|begin| to.part(x, begin, &read(input, extents)));
            let held = to.held(part.as_ref().unwrap_or(x));
            to.spread(&held, &input.dims, extents)
        };
        let inputs: Vec<_> = zip(inputs, &step.step.inputs).enumerate().map(spread).collect();
        Ok(to.body(&self.body, extents, &inputs))
    }
}
