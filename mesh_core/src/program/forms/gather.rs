use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::names::DType;
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Is, Lookup, Spell, Tensor, Writer};
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
        are_indices(step, 1)?;
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

/// Whether input `i` can be used as indices.
pub(super) fn are_indices(step: &StepCx<'_>, i: usize) -> Legal {
    let dtype = step.input(i).dtype;
    ensure!(dtype == DType::I32, "the indices are {dtype}, not i32");
    Ok(())
}

impl Spell for Gather {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (shape, rank) = (step.shape(0), step.shape(0).len());
        let [own, at] = [0, 1].map(|i: usize| step.step.inputs[i].dims.to_vec());
        let sorted = |labels: &[u8]| {
            let mut labels = labels.to_vec();
            labels.sort_unstable();
            labels
        };
        // The indexed label is none of the out's, so that it comes last.
        let [order, index_order] = [sorted(&own), sorted(&at)];
        let x = to.arranged(&inputs[0], &own, &order);
        let indices = to.arranged(&inputs[1], &at, &index_order);
        let (indices, inside) = rows(to, &indices, &self.begin, x.extents[order.len() - 1]);
        let along = order.iter().enumerate().filter_map(|(dim, label)| {
            Some((dim, index_order.iter().position(|other| other == label)?))
        });
        let slices = (0..rank).filter(|&dim| index_order.iter().all(|&l| usize::from(l) != dim));
        let (along, slices) = (along.collect(), slices.collect());
        let found =
            to.looked_up(&x, &indices, &Lookup { dim: order.len() - 1, along, slices }, shape);
        let inside = to.spread(&inside, &index_order, shape);
        let nothing = to.fill(found.element, shape, 0.0);
        Ok(vec![to.select(&inside, &found, &nothing)])
    }
}

/// The rows that indices mean, and which of them are among so many.
pub(super) fn rows(
    to: &mut Writer<'_>,
    indices: &Tensor,
    begin: &Offset,
    count: usize,
) -> (Tensor, Tensor) {
    let rows = if *begin == Offset::default() {
        indices.clone()
    } else {
        let begin = to.offset(begin);
        let begin = to.broadcast(&begin, &[], &indices.extents);
        to.binary("subtract", indices, &begin)
    };
    let from = to.compare_with(&rows, Is::AtLeast, 0.0);
    let below = to.compare_with(&rows, Is::Less, count as f64);
    let inside = to.binary("and", &from, &below);
    (rows, inside)
}
