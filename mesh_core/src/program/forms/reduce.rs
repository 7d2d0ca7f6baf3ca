use super::cx::{folds, joined};
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::names::{DType, ReduceKind};
use crate::program::arithmetic::widest;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Spell, Tensor, Writer, those};
use crate::program::{Body, Cost, Operand};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// `out[i] = fold(kind) of body(inputs) over the labels that the out lacks`.
///
/// Every result label is in an input. What is folded has the out's dtype: all and any fold bool, the other
/// kinds numbers. Results of an expression are not rounded to bf16 before they are folded, so there is none of bf16.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Reduce {
    /// How to fold.
    pub kind: ReduceKind,
    /// What is folded, an expression of one result; the one input's elements if there is none.
    pub body: Option<Body>,
}

impl Reduce {
    /// A fold of an input's elements.
    pub fn new(kind: ReduceKind) -> Self {
        Self { kind, body: None }
    }
}

impl FormRules for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        let dtype = step.out(0).dtype;
        match &self.body {
            None => {
                step.counts(1, 1)?;
                step.one_dtype()?;
            }
            Some(body) => {
                step.counts(step.step.inputs.len(), 1)?;
                let inputs: Vec<_> = step.step.reads().map(|id| step.value(id).dtype).collect();
                body.check(&inputs)?;
                ensure!(body.results.len() == 1, "{} results are folded", body.results.len());
                let made = body.code[usize::from(body.results[0].0)].1;
                ensure!(made == dtype, "the out is {dtype}, but what is folded {made}");
                ensure!(dtype != DType::BF16, "an expression of bf16 is folded");
            }
        }
        folds(self.kind, dtype)?;
        let mut labels = Labels::new(step.out(0));
        for (i, input) in step.step.inputs.iter().enumerate() {
            labels.operand(format_args!("{:?}", input.value), input, step.input(i))?;
        }
        labels.covered(&step.step.inputs, &[])
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let points: usize = step.space().iter().product();
        let each = 1 + self.body.as_ref().map_or(0, Body::flops);
        Cost { flops: (each * points) as u64, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let inputs = joined((0..step.step.inputs.len()).map(|i| step.labelled(i)));
        match &self.body {
            None => format!("{} of {inputs}", self.kind),
            Some(body) => format!("{} of {body} of {inputs}", self.kind),
        }
    }
}

impl Local for Reduce {
    /// In whatever order: floats are folded in f64.
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (shape, dtype) = (step.shape(0), widest(step.out(0).dtype));
        let mut out = Numbers::from_elem(shape, self.kind.start(dtype));
        let mut registers = Vec::new();
        each(&step.space(), |point| {
            let folded = match &self.body {
                None => inputs[0].at(point),
                Some(body) => {
                    body.run(&mut registers, |i| inputs[i].at(point));
                    registers[usize::from(body.results[0].0)]
                }
            };
            let out = &mut out[&point[..shape.len()]];
            *out = self.kind.fold(dtype, *out, folded);
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
        let (out, rank) = (step.out(0), step.out(0).extents.len());
        let (held, labels) = match &self.body {
            None => (to.held(&inputs[0]), step.step.inputs[0].dims.clone()),
            Some(body) => {
                let space = step.space();
                let spread = |(x, input): (&Tensor, &Operand)| {
                    let held = to.held(x);
                    to.spread(&held, &input.dims, &space)
                };
                let inputs: Vec<_> = zip(inputs, &step.step.inputs).map(spread).collect();
                let folded = to.body(body, &space, &inputs).swap_remove(0);
                (to.held(&folded), (0..).take(space.len()).collect())
            }
        };
        let kept: Vec<u8> = (0..).take(rank).collect();
        let gone = (0..labels.len()).filter(|&dim| !kept.contains(&labels[dim]));
        let gone: Vec<usize> = gone.collect();
        let folded = to.folded(self.kind, &held, &gone);
        let folded = to.arranged(&folded, &those(&labels, &kept, true), &kept);
        Ok(vec![to.stored(&folded, out.dtype.into())])
    }
}
