use super::{FormRules, Labels, Legal, StepCx, Window, ensure};
use crate::names::{DType, ReduceKind};
use crate::program::arithmetic::widest;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::{Cost, Prim};
use serde::{Deserialize, Serialize};

/// `out[i] = sum of lhs * rhs over the labels that the out lacks`.
///
/// Inputs are the factors. Factors and out have one dtype, not bool, and every result label is in a
/// factor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Contract;

impl FormRules for Contract {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(2, 1)?;
        step.one_dtype()?;
        products(step, &[]).map(drop)
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: multiply_adds(step, &[]), bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("{} * {}", step.labelled(0), step.labelled(1))
    }
}

impl Local for Contract {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        vec![summed(step, &step.space(), inputs, |_| true)]
    }
}

/// The sum of the products at all points of a space, which `place` moves to where they belong; it
/// refuses those that are nowhere.
pub(super) fn summed(
    step: &StepCx<'_>,
    space: &[usize],
    inputs: &[Given<'_>],
    place: impl Fn(&mut [usize]) -> bool,
) -> Numbers {
    let (shape, dtype) = (step.shape(0), widest(step.input(0).dtype));
    let (mut out, mut at) = (Numbers::zeros(shape), space.to_vec());
    each(space, |point| {
        at.copy_from_slice(point);
        if place(&mut at) {
            let term = Prim::Mul.apply(dtype, [inputs[0].at(&at), inputs[1].at(&at), 0.0]);
            let out = &mut out[&at[..shape.len()]];
            *out = ReduceKind::Sum.fold(dtype, *out, term);
        }
    });
    out
}

/// The labels of a legal sum of products of inputs 0 and 1, of which windows tie some.
pub(super) fn products(step: &StepCx<'_>, windows: &[Window]) -> Result<Labels, String> {
    ensure!(step.input(0).dtype != DType::Bool, "there are no sums of bool");
    let mut labels = Labels::new(step.out(0));
    labels.operand("lhs", &step.step.inputs[0], step.input(0))?;
    labels.operand("rhs", &step.step.inputs[1], step.input(1))?;
    let tied: Vec<_> = windows.iter().flat_map(|w| [w.input, w.kernel, w.output]).collect();
    labels.covered(&step.step.inputs[..2], &tied)?;
    Ok(labels)
}

/// Twice the number of products: the iteration space, without the labels that windows derive from
/// others.
pub(super) fn multiply_adds(step: &StepCx<'_>, windows: &[Window]) -> u64 {
    let labels = products(step, windows);
    let derived = |label| windows.iter().any(|window| window.input == label);
    labels.map_or(0, |labels| labels.points(derived)).saturating_mul(2)
}
