use super::{FormRules, Labels, Legal, StepCx, Window, ensure, map};
use crate::names::{DType, ReduceKind};
use crate::program::arithmetic::{rounded, widest};
use crate::program::meaning::{Given, Here, Local, Numbers, each, mapped};
use crate::program::{Body, Cost, Operand, Prim};

/// `product[i] = sum of lhs * rhs over the labels that the product lacks`, and the epilogue of that.
///
/// Inputs are the factors, then what else the epilogue reads. Factors and product have one dtype, not
/// bool, and every result label is in a factor. Without an epilogue the out is the product. With one,
/// each out has the product's extents and is a result of the epilogue's body, as in a map of the
/// product (its input 0) and of the further inputs: each element is rounded to the product's dtype
/// before.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Contract {
    /// What is made of the product, element by element.
    pub epilogue: Option<Body>,
}

impl FormRules for Contract {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    /// What the epilogue reads besides the product, piece by piece.
    fn in_place(&self, inputs: &[Operand], _out: usize, input: usize) -> bool {
        input >= 2 && inputs[input].is_whole()
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        let Some(epilogue) = &self.epilogue else {
            step.counts(2, 1)?;
            step.one_dtype()?;
            return products(step, &[]).map(drop);
        };
        let reads: Vec<_> = step.step.reads().collect();
        ensure!(reads.len() >= 2, "there are no two factors");
        step.dtypes(&reads[..2])?;
        let others = reads[2..].iter().map(|&input| step.value(input).dtype);
        let inputs: Vec<_> = [step.input(0).dtype].into_iter().chain(others).collect();
        map::results(epilogue, &inputs, step)?;
        let mut labels = products(step, &[])?;
        for (input, &id) in step.step.inputs[2..].iter().zip(&reads[2..]) {
            labels.operand(format_args!("{id:?}"), input, step.value(id))?;
            labels.below_rank(format_args!("{id:?}"), input)?;
        }
        Ok(())
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let epilogue = self.epilogue.as_ref().map_or(0, |body| body.flops() * step.out(0).len());
        let flops = multiply_adds(step, &[]).saturating_add(epilogue as u64);
        Cost { flops, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let product = format!("{} * {}", step.labelled(0), step.labelled(1));
        let others = (2..step.step.inputs.len()).map(|i| format!(", {}", step.labelled(i)));
        match &self.epilogue {
            None => product,
            Some(body) => format!("{body} of {product}{}", others.collect::<String>()),
        }
    }
}

impl Local for Contract {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let mut product = summed(step, &step.space(), inputs, |_| true);
        let Some(epilogue) = &self.epilogue else { return vec![product] };
        product.mapv_inplace(|x| rounded(step.input(0).dtype, x));
        mapped(epilogue, step.shape(0), |i, point| match i {
            0 => product[point],
            _ => inputs[i + 1].at(point),
        })
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
