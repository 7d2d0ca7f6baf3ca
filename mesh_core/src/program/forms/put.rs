use super::gather::{are_indices, row, rows};
use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Lookup, Spell, Tensor, Writer, those};
use crate::program::{Cost, Offset, Operand};
use serde::{Deserialize, Serialize};

/// The input with another row: `out[.., p, ..] = row[..]` where `p = indices[..] - begin`, elsewhere
/// `input[.., p, ..]`. An index outside the out puts nothing. StableHLO: scatter with the update.
///
/// Inputs: what is written into, with the out's labels in their order; the row, whose labels are those of
/// the out but `dim`; and positions along `dim`, i32, whose labels are labels of the row. Input, row and out
/// have one dtype. A plan may compute the out in the input's memory, and then only the row is written.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Put {
    /// The out's label that is indexed.
    pub dim: u8,
    /// The index that means the out's first position along `dim`.
    pub begin: Offset,
}

impl FormRules for Put {
    fn name(&self) -> &'static str {
        "put"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn in_place(&self, _: &[Operand], _: usize, input: usize) -> bool {
        input == 0
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(3, 1)?;
        step.greatest(&self.begin)?;
        let [input, row, indices] = [0, 1, 2].map(|i: usize| &step.step.inputs[i]);
        step.dtypes(&[input.value, row.value, step.step.outs[0]])?;
        are_indices(step, 2)?;
        let dim = self.dim;
        let mut labels = Labels::new(step.out(0));
        ensure!(labels.is_result(dim), "the result lacks the label {dim}");
        let own = (0..).take(input.dims.len()).eq(input.dims.iter().copied());
        ensure!(own, "the input's labels are not those of the result in order");
        step.extents(input.value, &step.out(0).extents)?;
        ensure!(!row.dims.contains(&dim), "the row has the indexed label {dim}");
        labels.operand("the row", row, step.input(1))?;
        labels.below_rank("the row", row)?;
        labels.operand("the indices", indices, step.input(2))?;
        let stray = indices.dims.iter().find(|&label| !row.dims.contains(label));
        ensure!(stray.is_none(), "the indices have labels that the row lacks");
        labels.covered(&step.step.inputs[1..2], &[dim])
    }

    /// What a plan that computes it in place does.
    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let bytes = 2 * step.input(1).bytes() + step.input(2).bytes();
        Cost { flops: 0, bytes: bytes as u64, sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let lookup = step.lookup(2, self.dim, &self.begin);
        format!("{} to {lookup} of {}", step.labelled(1), step.labelled(0))
    }
}

impl Local for Put {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (shape, dim) = (step.shape(0), usize::from(self.dim));
        let begin = self.begin.at(here.mesh, here.processor);
        let mut out = inputs[0].numbers.clone();
        let lines: Vec<_> = (0..shape.len()).map(|i| if i == dim { 1 } else { shape[i] }).collect();
        each(&lines, |point| {
            let mut at = point.to_vec();
            at[dim] = row(&inputs[2], point, begin);
            if at[dim] < shape[dim] {
                out[&at[..]] = inputs[1].at(point);
            }
        });
        vec![out]
    }
}

impl Spell for Put {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let shape = step.shape(0);
        let [own, at] = [1, 2].map(|i: usize| step.step.inputs[i].dims.to_vec());
        let mut slices = those(&own, &at, false);
        slices.sort_unstable();
        let updates = to.arranged(&inputs[1], &own, &[&at[..], &slices].concat());
        let dim = usize::from(self.dim);
        let (rows, inside) = rows(to, &inputs[2], &self.begin, shape[dim]);
        // Beyond the end, where nothing is put.
        let outside = to.fill(rows.element, &rows.extents, shape[dim] as f64);
        let rows = to.select(&inside, &rows, &outside);
        let along = at.iter().enumerate().map(|(i, &label)| (usize::from(label), i));
        let mut along: Vec<_> = along.collect();
        along.sort_unstable();
        let slices = (at.len()..at.len() + slices.len()).collect();
        let lookup = Lookup { dim, along, slices };
        Ok(vec![to.scattered(&inputs[0], &rows, &updates, &lookup, None)])
    }
}
