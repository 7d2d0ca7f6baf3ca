//! The rules of forms that go by index or order.

use super::forms::{Labels, folds};
use super::{Legal, Scope, ensure};
use crate::names::DType;
use crate::program::{Operand, Step, Value, ValueId};

impl Scope<'_> {
    /// The rule of a gather, scatter, sort or scan.
    pub(super) fn by_index(&self, step: &Step) -> Legal {
        match step {
            Step::Gather { input, indices, dim, begin, out } => {
                self.greatest(begin)?;
                self.gather(input, indices, *dim, *out)
            }
            Step::Scatter { updates, indices, dim, begin, out } => {
                self.greatest(begin)?;
                self.scatter(updates, indices, *dim, *out)
            }
            Step::Sort { inputs, dim, outs, .. } => self.sort(inputs, *dim, outs),
            Step::Scan { kind, input, dim, out, .. } => {
                folds(*kind, self.value(*input).dtype)?;
                self.dim(*dim, *input)?;
                self.keeps(*input, *out, |_| {})
            }
            _ => Ok(()),
        }
    }

    fn indices(&self, indices: &Operand) -> Legal {
        let dtype = self.value(indices.value).dtype;
        ensure!(dtype == DType::I32, "the indices are {dtype}, not i32");
        Ok(())
    }

    fn gather(&self, input: &Operand, indices: &Operand, dim: u8, out: ValueId) -> Legal {
        self.dtypes(&[input.value, out])?;
        self.indices(indices)?;
        let rank = self.value(out).extents.len();
        ensure!(usize::from(dim) >= rank, "the result has the gathered label {dim}");
        ensure!(input.dims.contains(&dim), "the input lacks the gathered label {dim}");
        let mut labels = Labels::new(self.value(out));
        labels.operand(format_args!("the input"), input, self.value(input.value))?;
        labels.operand(format_args!("the indices"), indices, self.value(indices.value))?;
        labels.below_rank(format_args!("the indices"), indices)?;
        let kept = input.dims.iter().copied().filter(|&label| label != dim).collect();
        labels.below_rank(format_args!("the input"), &Operand { dims: kept, ..input.clone() })?;
        labels.covered(&[input, indices], &[])
    }

    fn scatter(&self, updates: &Operand, indices: &Operand, dim: u8, out: ValueId) -> Legal {
        self.dtypes(&[updates.value, out])?;
        self.indices(indices)?;
        let value = self.value(out);
        let sums = matches!(value.dtype, DType::F32 | DType::F64 | DType::I32);
        ensure!(sums, "there are no scattered sums of {}", value.dtype);
        ensure!(usize::from(dim) < value.extents.len(), "the result lacks the label {dim}");
        ensure!(!updates.dims.contains(&dim), "the updates have the indexed label {dim}");
        let mut labels = Labels::new(value);
        labels.operand(format_args!("the updates"), updates, self.value(updates.value))?;
        labels.operand(format_args!("the indices"), indices, self.value(indices.value))?;
        let stray = indices.dims.iter().find(|&label| !updates.dims.contains(label));
        ensure!(stray.is_none(), "the indices have labels that the updates lack");
        let indexed = Operand { value: out, dims: [dim].into_iter().collect() };
        labels.covered(&[updates, &indexed], &[])
    }

    fn sort(&self, inputs: &[Operand], dim: u8, outs: &[ValueId]) -> Legal {
        let (count, made) = (inputs.len(), outs.len());
        ensure!(count == made && count > 0, "{count} inputs, but {made} outs");
        let (keys, first) = (&inputs[0], self.value(outs[0]));
        let at = keys.dims.iter().position(|&label| label == dim);
        let (Some(at), Some(&kept)) = (at, first.extents.get(usize::from(dim))) else {
            return Err(format!("there is no dim {dim}"));
        };
        let line = self.value(keys.value).extents.get(at).copied().unwrap_or_default();
        ensure!(kept <= line, "{kept} elements are kept of {line}");
        let mut whole = Value::new(first.dtype, first.extents.iter().copied());
        whole.extents[usize::from(dim)] = line;
        let mut labels = Labels::new(&whole);
        for (input, &out) in inputs.iter().zip(outs) {
            let name = format_args!("{:?}", input.value);
            labels.operand(name, input, self.value(input.value))?;
            labels.below_rank(name, input)?;
            self.dtypes(&[input.value, out])?;
            self.extents(out, &first.extents)?;
        }
        labels.covered(&[keys], &[])
    }
}
