use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::names::DType;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::{Cost, Offset, Operand};
use serde::{Deserialize, Serialize};

/// `out[..] = input[.., indices[..] - begin, ..]`; zero (or false) where that is outside the input.
/// StableHLO: gather, and a select where the index is out of range.
///
/// Inputs: what is looked up, and positions along `dim`. Input and out have one dtype, indices are i32.
/// The input's labels are result labels but for `dim`, which it has and which is not; the indices'
/// are result labels. Every result label is in one of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Gather {
    /// The input's label that the result lacks.
    pub dim: u8,
    /// The index that means the input's first position along `dim`.
    pub begin: Offset,
}

impl FormRules for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.counts(2, 1)?;
        step.greatest(&self.begin)?;
        let [input, indices] = [0, 1].map(|i: usize| &step.step.inputs[i]);
        step.dtypes(&[input.value, step.step.outs[0]])?;
        are_indices(step)?;
        let dim = self.dim;
        let mut labels = Labels::new(step.out(0));
        ensure!(!labels.is_result(dim), "the result has the gathered label {dim}");
        ensure!(input.dims.contains(&dim), "the input lacks the gathered label {dim}");
        labels.operand("the input", input, step.input(0))?;
        labels.operand("the indices", indices, step.input(1))?;
        labels.below_rank("the indices", indices)?;
        let kept = input.dims.iter().copied().filter(|&label| label != dim).collect();
        labels.below_rank("the input", &Operand { dims: kept, value: input.value })?;
        labels.covered(&step.step.inputs, &[])
    }

    /// Rows that nobody asks for are not read.
    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let bytes = step.input(1).bytes() + 2 * step.out(0).bytes();
        Cost { flops: 0, bytes: bytes as u64, sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        format!("{} at {}", step.labelled(0), step.lookup(1, self.dim, &self.begin))
    }
}

impl Local for Gather {
    fn apply(&self, step: &StepCx<'_>, here: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (mut at, dim) = (step.space(), usize::from(self.dim));
        let (rows, begin) = (at[dim], self.begin.at(here.mesh, here.processor));
        let mut out = Numbers::zeros(step.shape(0));
        each(step.shape(0), |point| {
            at[..point.len()].copy_from_slice(point);
            at[dim] = row(&inputs[1], &at, begin);
            if at[dim] < rows {
                out[point] = inputs[0].at(&at);
            }
        });
        vec![out]
    }
}

/// The row that the indices mean at a point; one that nobody has if it lies before the first.
pub(super) fn row(indices: &Given<'_>, point: &[usize], begin: usize) -> usize {
    let row = indices.at(point) as i64 - begin as i64;
    usize::try_from(row).unwrap_or(usize::MAX)
}

/// Whether input 1 can be used as indices.
pub(super) fn are_indices(step: &StepCx<'_>) -> Legal {
    let dtype = step.input(1).dtype;
    ensure!(dtype == DType::I32, "the indices are {dtype}, not i32");
    Ok(())
}
