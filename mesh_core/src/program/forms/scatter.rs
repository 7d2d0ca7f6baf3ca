use super::gather::{are_indices, row, rows};
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::names::{DType, ReduceKind};
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Lookup, Spell, Tensor, Writer, those};
use crate::program::{Cost, Offset};
use serde::{Deserialize, Serialize};
use std::iter::zip;

/// `out[.., p, ..] = sum of the updates for which indices[..] - begin = p`, added in the declared order
/// of the updates. Indices outside the out add nothing. StableHLO: scatter with add.
///
/// Inputs: the updates, whose labels are those of the out but `dim`, and any that are summed; and
/// positions along `dim`, i32, whose labels are labels of the updates. Updates and out have one dtype,
/// f32, f64 or i32. `dim` is a result label and no label of the updates; every other result label is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Scatter {
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

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(2, 1)?;
        step.greatest(&self.begin)?;
        let [updates, indices] = [0, 1].map(|i: usize| &step.step.inputs[i]);
        step.dtypes(&[updates.value, step.step.outs[0]])?;
        are_indices(step, 1)?;
        let (value, dim) = (step.out(0), self.dim);
        let sums = matches!(value.dtype, DType::F32 | DType::F64 | DType::I32);
        ensure!(sums, "there are no scattered sums of {}", value.dtype);
        let mut labels = Labels::new(value);
        ensure!(labels.is_result(dim), "the result lacks the label {dim}");
        ensure!(!updates.dims.contains(&dim), "the updates have the indexed label {dim}");
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
        format!("{} to {}", step.labelled(0), step.lookup(1, self.dim, &self.begin))
    }
}

impl Local for Scatter {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (shape, dim) = (step.shape(0), usize::from(self.dim));
        let (mut at, begin) = (step.space(), self.begin.at(here.mesh, here.processor));
        let mut out = Numbers::zeros(shape);
        each(inputs[0].numbers.shape(), |position| {
            for (&label, &i) in zip(inputs[0].dims, position) {
                at[usize::from(label)] = i;
            }
            at[dim] = row(&inputs[1], &at, begin);
            if at[dim] < shape[dim] {
                let out = &mut out[&at[..shape.len()]];
                let update = inputs[0].numbers[position];
                *out = ReduceKind::Sum.fold(step.out(0).dtype, *out, update);
            }
        });
        vec![out]
    }
}

impl Spell for Scatter {
    /// Updates of one place are summed first.
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
        let (updates, own) = to.summed_out(&inputs[0], &own, &gone);
        let mut slices = those(&own, &at, false);
        slices.sort_unstable();
        let updates = to.arranged(&updates, &own, &[&at[..], &slices].concat());
        let dim = usize::from(self.dim);
        let (rows, inside) = rows(to, &inputs[1], &self.begin, shape[dim]);
        // Beyond the end, where nothing is added.
        let outside = to.fill(rows.element, &rows.extents, shape[dim] as f64);
        let rows = to.select(&inside, &rows, &outside);
        let along = kept
            .iter()
            .enumerate()
            .filter_map(|(dim, label)| Some((dim, at.iter().position(|other| other == label)?)));
        let along = along.collect();
        let slices = (at.len()..at.len() + slices.len()).collect();
        let nothing = to.fill(out.dtype.into(), shape, 0.0);
        let lookup = Lookup { dim, along, slices };
        Ok(vec![to.scattered(&nothing, &rows, &updates, &lookup, Some(ReduceKind::Sum))])
    }
}
