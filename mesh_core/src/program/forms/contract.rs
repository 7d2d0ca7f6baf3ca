use super::{FormRules, Labels, Legal, StepCx, Window, ensure};
use crate::names::{DType, ReduceKind};
use crate::program::arithmetic::widest;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Spell, Tensor, Writer, those};
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

impl Spell for Contract {
    /// What only one factor has and the out lacks is summed first. Where no label of both is summed, the
    /// product goes element by element. The factor whose own labels come first in the out comes first in the
    /// product, which then needs no transposing: XLA would turn the product around again, and its CPU kernels
    /// take no first factor that is summed over its first dim.
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let out = step.out(0);
        let kept: Vec<u8> = (0..).take(out.extents.len()).collect();
        let mut factors = factors(step, to, inputs, &kept);
        let first = |i: usize| {
            let own = those(&factors[i].1, &factors[1 - i].1, false);
            own.into_iter().min().unwrap_or(u8::MAX)
        };
        if first(1) < first(0) {
            factors.swap(0, 1);
        }
        let [(lhs, l), (rhs, r)] = factors;
        let both = those(&l, &r, true);
        let (batch, summed) = (those(&both, &kept, true), those(&both, &kept, false));
        let product = if summed.is_empty() {
            let spread = [(&lhs, &l), (&rhs, &r)].map(|(x, labels)| {
                let held = to.held(x);
                to.spread(&held, labels, &out.extents)
            });
            to.binary("multiply", &spread[0], &spread[1])
        } else {
            let dims = |labels: &[u8], of: &[u8]| -> Vec<usize> {
                of.iter().filter_map(|one| labels.iter().position(|own| own == one)).collect()
            };
            let (kept_dims, summed_dims) =
                ([dims(&l, &batch), dims(&r, &batch)], [dims(&l, &summed), dims(&r, &summed)]);
            let product = to.multiplied(
                [&lhs, &rhs],
                [&kept_dims[0], &kept_dims[1]],
                [&summed_dims[0], &summed_dims[1]],
            );
            let own = |labels: &[u8]| those(labels, &both, false);
            let labels: Vec<u8> = batch.iter().copied().chain(own(&l)).chain(own(&r)).collect();
            to.arranged(&product, &labels, &kept)
        };
        Ok(vec![to.stored(&product, out.dtype.into())])
    }
}

/// The factors of a sum of products, each with its labels, without those that are neither in the other
/// factor nor among some labels: these are summed. Both factors are of one type.
pub(super) fn factors(
    step: &StepCx<'_>,
    to: &mut Writer<'_>,
    inputs: &[Tensor],
    kept: &[u8],
) -> [(Tensor, Vec<u8>); 2] {
    let labels = [0, 1].map(|i: usize| &step.step.inputs[i].dims);
    let mut factors = [0, 1].map(|i: usize| {
        let alone = those(labels[i], labels[1 - i], false);
        to.folded_out(ReduceKind::Sum, &inputs[i], labels[i], &those(&alone, kept, false))
    });
    if factors[0].0.element != factors[1].0.element {
        factors.iter_mut().for_each(|(x, _)| *x = to.held(x));
    }
    factors
}
