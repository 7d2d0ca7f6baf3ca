use super::{FormRules, Labels, Legal, StepCx, ensure};
use crate::program::meaning::{Given, Here, Local, Numbers, each};
use crate::program::stablehlo::{Is, Spell, Tensor, Writer};
use crate::program::{Cost, Value};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering::Equal;
use std::iter::zip;

/// Sorts every line along `dim` by the first input, the others alike, and keeps as many elements as the
/// outs are long. Equal keys stay in order; zeros are equal, and NaN is greater than all else and equal
/// to itself. StableHLO: sort, and a slice.
///
/// As many outs as inputs, at least one, each of its input's dtype; the outs have equal extents. Labels
/// an input lacks are broadcast; the keys, which come first, have all. `dim` is a result label; along
/// it the outs may be shorter than the inputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Sort {
    /// Label of the dim along which elements are sorted.
    pub dim: u8,
    /// Whether the greatest come first.
    pub descending: bool,
}

impl Sort {
    /// Number of elements of a line.
    fn line(&self, step: &StepCx<'_>) -> Option<usize> {
        let at = step.step.inputs.first()?.dims.iter().position(|label| *label == self.dim)?;
        step.input(0).extents.get(at).copied()
    }
}

impl FormRules for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn is_labelled(&self) -> bool {
        true
    }

    fn check(&self, step: &StepCx<'_>) -> Legal {
        step.pairs()?;
        let (dim, first) = (usize::from(self.dim), step.out(0));
        let (Some(line), Some(&kept)) = (self.line(step), first.extents.get(dim)) else {
            return Err(format!("there is no dim {dim}"));
        };
        ensure!(kept <= line, "{kept} elements are kept of {line}");
        let mut whole = Value::new(first.dtype, first.extents.iter().copied());
        whole.extents[dim] = line;
        let mut labels = Labels::new(&whole);
        for (input, &out) in step.step.inputs.iter().zip(&step.step.outs) {
            let name = format_args!("{:?}", input.value);
            labels.operand(name, input, step.value(input.value))?;
            labels.below_rank(name, input)?;
            step.dtypes(&[input.value, out])?;
            step.extents(out, &first.extents)?;
        }
        labels.covered(&step.step.inputs[..1], &[])
    }

    fn cost(&self, step: &StepCx<'_>) -> Cost {
        let line = self.line(step).unwrap_or(1);
        // Comparisons of a binary sort.
        let each = u64::from(line.next_power_of_two().trailing_zeros());
        Cost { flops: step.input(0).len() as u64 * each, bytes: step.bytes(), sent: 0 }
    }

    fn text(&self, step: &StepCx<'_>) -> String {
        let order = if self.descending { "descending" } else { "ascending" };
        format!("{order} along {} of {}", step.letter(self.dim), step.all_labelled())
    }
}

impl Local for Sort {
    fn apply(&self, step: &StepCx<'_>, _: &Here<'_>, inputs: &[Given<'_>]) -> Vec<Numbers> {
        let (dim, kept) = (usize::from(self.dim), step.shape(0)[usize::from(self.dim)]);
        let mut outs = vec![Numbers::zeros(step.shape(0)); inputs.len()];
        let (line, mut lines) = (step.space()[dim], step.shape(0).to_vec());
        lines[dim] = 1;
        let mut at = lines.clone();
        each(&lines, |point| {
            at.copy_from_slice(point);
            let mut key = |i| {
                at[dim] = i;
                inputs[0].at(&at)
            };
            let mut order: Vec<_> = (0..line).map(|i| (key(i), i)).collect();
            // Stable.
            order.sort_by(|(a, _), (b, _)| {
                let order = a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(b).unwrap_or(Equal));
                if self.descending { order.reverse() } else { order }
            });
            for (to, &(_, from)) in order[..kept].iter().enumerate() {
                for (input, out) in zip(inputs, &mut outs) {
                    at[dim] = from;
                    let x = input.at(&at);
                    at[dim] = to;
                    out[&at[..]] = x;
                }
            }
        });
        outs
    }
}

impl Spell for Sort {
    fn spell(
        &self,
        step: &StepCx<'_>,
        to: &mut Writer<'_>,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let (shape, dim) = (step.shape(0), usize::from(self.dim));
        let mut space = shape.to_vec();
        space[dim] = step.space()[dim].max(self.line(step).unwrap_or(1));
        let spread: Vec<_> = zip(inputs, &step.step.inputs)
            .map(|(x, input)| to.spread(x, &input.dims, &space))
            .collect();
        let outs = to.sorted(&spread, dim, |to, a, b| {
            let (a, b) = if self.descending { (b, a) } else { (a, b) };
            let less = to.compare(a, Is::Less, b);
            if !a.element.is_float() {
                return less;
            }
            let (is_number, is_none) = (to.compare(a, Is::Equal, a), to.compare(b, Is::Other, b));
            let last = to.binary("and", &is_number, &is_none);
            to.binary("or", &less, &last)
        });
        let begin = vec![0; shape.len()];
        Ok(outs.iter().map(|out| to.sliced(out, &begin, shape)).collect())
    }
}
