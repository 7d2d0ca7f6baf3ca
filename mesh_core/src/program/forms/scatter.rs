use super::cx::folds;
use super::gather::{are_indices, row, rows};
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::names::{DType, ReduceKind};
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Lookup, Spell, Tensor, Writer, those};
use crate::program::{Cost, Offset, Operand};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// `out[.., p, ..] = fold(kind) of the updates for which indices[..] - begin = p`, one after another in the
/// declared order of the updates. Indices outside the out do nothing. The fold begins with what is there already, if
/// there is a third input, else with what a fold of nothing is. StableHLO: scatter.
///
/// Inputs: the updates, whose labels are those of the out but `dim`, and any that are folded; positions along
/// `dim`, i32, whose labels are labels of the updates; and perhaps what is folded onto, with the out's labels in their
/// order. All but the positions have one dtype, f32, f64 or i32, and the kind is sum, prod, max or min. `dim` is a
/// result label and no label of the updates; every other result label is. A plan may compute the out in the memory of
/// what is folded onto.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Scatter {
    /// How to fold.
    pub kind: ReduceKind,
    /// The result's label that is indexed.
    pub dim: u8,
    /// The index that means the result's first position along `dim`.
    pub begin: Offset,
}

impl FormRules for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn in_place(&self, _: &[Operand], _: usize, input: usize) -> bool {
        input == 2
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        let onto = step.step.inputs.get(2);
        step.counts(if onto.is_some() { 3 } else { 2 }, 1)?;
        step.greatest(&self.begin)?;
        let [updates, indices] = [0, 1].map(|i: usize| &step.step.inputs[i]);
        step.dtypes(&[updates.value, step.step.outs[0]])?;
        are_indices(step, 1)?;
        let (value, dim) = (step.out(0), self.dim);
        let is_held = matches!(value.dtype, DType::F32 | DType::F64 | DType::I32);
        ensure!(is_held, "nothing of {} is scattered", value.dtype);
        folds(self.kind, value.dtype)?;
        let mut labels = Labels::new(value);
        ensure!(labels.is_result(dim), "the result lacks the label {dim}");
        ensure!(!updates.dims.contains(&dim), "the updates have the indexed label {dim}");
        if let Some(onto) = onto {
            step.dtypes(&[onto.value, step.step.outs[0]])?;
            let own = (0..).take(onto.dims.len()).eq(onto.dims.iter().copied());
            ensure!(own, "what is folded onto has not the labels of the result in order");
            step.extents(onto.value, &step.out(0).extents)?;
        }
        labels.operand("the updates", updates, step.input(0))?;
        labels.operand("the indices", indices, step.input(1))?;
        let stray = indices.dims.iter().find(|&label| !updates.dims.contains(label));
        ensure!(stray.is_none(), "the indices have labels that the updates lack");
        labels.covered(&step.step.inputs[..1], &[dim])
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        Cost { flops: step.input(0).len() as u64, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let lookup = step.lookup(1, self.dim, &self.begin);
        let onto = if step.step.inputs.len() > 2 {
            format!(" onto {}", step.labelled(2))
        } else {
            String::new()
        };
        format!("{} of {} to {lookup}{onto}", self.kind, step.labelled(0))
    }
}

impl Local for Scatter {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (shape, dim) = (step.shape(0), usize::from(self.dim));
        let (mut at, begin) = (step.space(), self.begin.at(here.mesh, here.processor));
        let start = self.kind.start(step.out(0).dtype);
        let mut out = match inputs.get(2) {
            Some(onto) => onto.numbers.clone(),
            None => Numbers::from_elem(shape, start),
        };
        each(inputs[0].numbers.shape(), |position| {
            for (&label, &i) in zip(inputs[0].dims, position) {
                at[usize::from(label)] = i;
            }
            at[dim] = row(&inputs[1], &at, begin);
            if at[dim] < shape[dim] {
                let out = &mut out[&at[..shape.len()]];
                let update = inputs[0].numbers[position];
                *out = self.kind.fold(step.out(0).dtype, *out, update);
            }
        });
        vec![out]
    }
}

impl Spell for Scatter {
    /// Updates of one place are folded first.
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (out, shape) = (step.out(0), step.shape(0));
        let kept: Vec<u8> = (0..).take(shape.len()).collect();
        let [own, at] = [0, 1].map(|i: usize| step.step.inputs[i].dims.to_vec());
        let gone = those(&those(&own, &at, false), &kept, false);
        let (updates, own) = to.folded_out(self.kind, &inputs[0], &own, &gone);
        let mut slices = those(&own, &at, false);
        slices.sort_unstable();
        let updates = to.arranged(&updates, &own, &[&at[..], &slices].concat());
        let dim = usize::from(self.dim);
        let (rows, inside) = rows(to, &inputs[1], &self.begin, shape[dim]);
        // Beyond the end, where nothing is.
        let outside = to.fill(rows.element, &rows.extents, shape[dim] as f64);
        let rows = to.select(&inside, &rows, &outside);
        let along = kept
            .iter()
            .enumerate()
            .filter_map(|(dim, label)| Some((dim, at.iter().position(|other| other == label)?)));
        let along = along.collect();
        let slices = (at.len()..at.len() + slices.len()).collect();
        let start = || to.fill(out.dtype.into(), shape, self.kind.start(out.dtype));
        let onto = inputs.get(2).cloned().unwrap_or_else(start);
        let lookup = Lookup { dim, along, slices };
        Ok(vec![to.scattered(&onto, &rows, &updates, &lookup, Some(self.kind))])
    }
}
