//! The rules of each form. Ids of values and variables are known to be in range.

use super::{Legal, Scope, body, ensure};
use crate::names::{Axis, DType, ReduceKind};
use crate::program::{
    Extents, Generator, Offset, Operand, Piece, Step, Value, ValueId, VariableId, Window,
};
use smallvec::SmallVec;
use std::fmt::Arguments;

/// The extent of each label met so far.
pub(super) struct Labels {
    extents: SmallVec<[(u8, usize); 8]>,
    rank: usize,
}

impl Labels {
    pub(super) fn new(out: &Value) -> Self {
        let extents = (0..).zip(out.extents.iter().copied()).collect();
        Self { extents, rank: out.extents.len() }
    }

    pub(super) fn operand(
        &mut self,
        name: Arguments<'_>,
        operand: &Operand,
        value: &Value,
    ) -> Legal {
        let (dims, rank) = (&operand.dims, value.extents.len());
        ensure!(dims.len() == rank, "{name} has {rank} dims, but {} labels", dims.len());
        for (i, (&label, &extent)) in dims.iter().zip(&value.extents).enumerate() {
            ensure!(!dims[..i].contains(&label), "{name} has label {label} twice");
            let known = self.known(label).unwrap_or_else(|| {
                self.extents.push((label, extent));
                extent
            });
            ensure!(known == extent, "label {label} is {known}, but {extent} in {name}");
        }
        Ok(())
    }

    pub(super) fn below_rank(&self, name: Arguments<'_>, operand: &Operand) -> Legal {
        for &label in &operand.dims {
            ensure!(usize::from(label) < self.rank, "{name} has label {label} of no result dim");
        }
        Ok(())
    }

    /// Result labels, those of windows aside, are in an operand.
    pub(super) fn covered(&self, operands: &[&Operand], windows: &[Window]) -> Legal {
        let tied = |label| windows.iter().any(|w| [w.input, w.kernel, w.output].contains(&label));
        for label in (0..).take(self.rank).filter(|&label| !tied(label)) {
            let found = operands.iter().any(|operand| operand.dims.contains(&label));
            ensure!(found, "result dim {label} is in no operand");
        }
        Ok(())
    }

    fn known(&self, label: u8) -> Option<usize> {
        self.extents.iter().find(|(known, _)| *known == label).map(|&(_, extent)| extent)
    }

    fn extent(&self, label: u8) -> usize {
        self.known(label).unwrap_or_default()
    }
}

impl Scope<'_> {
    pub(super) fn form(&self, step: &Step) -> Legal {
        match step {
            Step::Map { body, inputs, outs } => {
                ensure!(!outs.is_empty(), "there is no out");
                let dtypes: Vec<_> = inputs.iter().map(|i| self.value(i.value).dtype).collect();
                body::body(body, &dtypes)?;
                let (results, count) = (body.results.len(), outs.len());
                ensure!(results == count, "{results} results, but {count} outs");
                let first = self.value(outs[0]);
                for (result, &out) in body.results.iter().zip(outs) {
                    let (made, dtype) = (body.code[usize::from(result.0)].1, self.value(out).dtype);
                    ensure!(made == dtype, "{out:?} is {dtype}, but its result {made}");
                    self.extents(out, &first.extents)?;
                }
                let mut labels = Labels::new(first);
                for input in inputs {
                    let name = format_args!("{:?}", input.value);
                    labels.operand(name, input, self.value(input.value))?;
                    labels.below_rank(name, input)?;
                }
                Ok(())
            }
            Step::Reduce { kind, input, out } => {
                self.dtypes(&[input.value, *out])?;
                folds(*kind, self.value(*out).dtype)?;
                let mut labels = Labels::new(self.value(*out));
                labels.operand(format_args!("the input"), input, self.value(input.value))?;
                labels.covered(&[input], &[])
            }
            Step::Contract { lhs, rhs, out } => self.products(lhs, rhs, &[], *out),
            Step::Convolve { lhs, rhs, windows, out } => {
                ensure!(!windows.is_empty(), "there is no window");
                self.products(lhs, rhs, windows, *out)
            }
            Step::Move { pieces, fill, out } => {
                let (value, dtype) = (self.value(*out), fill.dtype());
                ensure!(dtype == value.dtype, "{out:?} is {}, but the fill {dtype}", value.dtype);
                for (i, piece) in pieces.iter().enumerate() {
                    self.dtypes(&[piece.input.value, *out])?;
                    self.piece(piece, value).map_err(|problem| format!("piece {i}: {problem}"))?;
                }
                Ok(())
            }
            Step::Reshape { input, out } => {
                self.dtypes(&[*input, *out])?;
                let (from, to) = (self.value(*input).len(), self.value(*out).len());
                ensure!(from == to, "{from} elements become {to}");
                Ok(())
            }
            Step::Generate { generator, salts, begin, global, out } => {
                let value = self.value(*out);
                self.inside(begin, &value.extents, global)?;
                ensure!(
                    salts.is_empty() || generator.key().is_some(),
                    "only random numbers have salts"
                );
                for salt in salts {
                    let found = self.value(*salt);
                    let fits = found.dtype == DType::I32 && found.extents.is_empty();
                    ensure!(fits, "{salt:?} is {found}, but a salt is a scalar of i32");
                }
                generates(generator, global, value)
            }
            Step::Barrier { inputs, outs } => {
                let (count, made) = (inputs.len(), outs.len());
                ensure!(count == made && count > 0, "{count} inputs, but {made} outs");
                inputs
                    .iter()
                    .zip(outs)
                    .try_for_each(|(&input, &out)| self.keeps(input, out, |_| {}))
            }
            Step::Call { inputs, outs, .. } => {
                ensure!(!outs.is_empty(), "there are no outs");
                for &id in inputs.iter().chain(outs) {
                    let value = self.value(id);
                    ensure!(value.in_order(), "{id:?} is {value}, not in declared order");
                }
                Ok(())
            }
            // What it names are a collective's, with its rules.
            Step::Await { .. } => Ok(()),
            Step::Loop(rounds) => self.rounds(rounds),
            Step::Gather { .. } | Step::Scatter { .. } | Step::Sort { .. } | Step::Scan { .. } => {
                self.by_index(step)
            }
            Step::AllReduce { kind, axes, inputs, outs, .. } => {
                let (count, made) = (inputs.len(), outs.len());
                ensure!(count == made && count > 0, "{count} inputs, but {made} outs");
                for (&input, &out) in inputs.iter().zip(outs) {
                    self.fold_over(*kind, axes, input)?;
                    self.keeps(input, out, |_| {})?;
                }
                Ok(())
            }
            Step::AllGather { axes, dim, input, out } => {
                let parts = self.group(axes)?;
                self.dim(*dim, *input)?;
                self.keeps(*input, *out, |extents| extents[usize::from(*dim)] *= parts)
            }
            Step::ReduceScatter { kind, axes, dim, input, out } => {
                let parts = self.fold_over(*kind, axes, *input)?;
                self.divides(*dim, *input, parts)?;
                self.keeps(*input, *out, |extents| extents[usize::from(*dim)] /= parts)
            }
            Step::AllToAll { axes, split, concat, input, out } => {
                let parts = self.group(axes)?;
                ensure!(split != concat, "cuts and joins along dim {split}");
                self.dim(*concat, *input)?;
                self.divides(*split, *input, parts)?;
                self.keeps(*input, *out, |extents| {
                    extents[usize::from(*split)] /= parts;
                    extents[usize::from(*concat)] *= parts;
                })
            }
            Step::Permute { axes, input, out, .. } => {
                self.group(axes)?;
                self.keeps(*input, *out, |_| {})
            }
            Step::ReduceTo { kind, axes, root, input, out } => {
                let members = self.fold_over(*kind, axes, *input)?;
                ensure!(*root < members, "a group of {members} has no member {root}");
                self.keeps(*input, *out, |_| {})
            }
            Step::Broadcast { axes, root, input, out } => {
                let members = self.group(axes)?;
                ensure!(*root < members, "a group of {members} has no member {root}");
                self.keeps(*input, *out, |_| {})
            }
            Step::Read { variable, out } => self.of_variable(*variable, *out),
            Step::Write { variable, input } => self.of_variable(*variable, *input),
        }
    }

    /// Whether all have the dtype of the first.
    pub(super) fn dtypes(&self, values: &[ValueId]) -> Legal {
        let wanted = self.value(values[0]).dtype;
        for &id in values {
            let dtype = self.value(id).dtype;
            ensure!(dtype == wanted, "{id:?} is {dtype}, but {:?} is {wanted}", values[0]);
        }
        Ok(())
    }

    pub(super) fn extents(&self, id: ValueId, wanted: &[usize]) -> Legal {
        let found = self.value(id).extents.as_slice();
        ensure!(found == wanted, "{id:?} is {found:?}, not {wanted:?}");
        Ok(())
    }

    /// A contraction, or with windows a convolution.
    fn products(&self, lhs: &Operand, rhs: &Operand, windows: &[Window], out: ValueId) -> Legal {
        self.dtypes(&[lhs.value, rhs.value, out])?;
        ensure!(self.value(out).dtype != DType::Bool, "there are no sums of bool");
        let mut labels = Labels::new(self.value(out));
        labels.operand(format_args!("lhs"), lhs, self.value(lhs.value))?;
        labels.operand(format_args!("rhs"), rhs, self.value(rhs.value))?;
        labels.covered(&[lhs, rhs], windows)?;
        let mut seen = Vec::new();
        let mut roles = None;
        for window in windows {
            let tied = [window.input, window.kernel, window.output];
            let mut holders = [0; 3];
            for (label, holder) in tied.into_iter().zip(&mut holders) {
                ensure!(!seen.contains(&label), "label {label} is in windows twice");
                seen.push(label);
                let is_dim_of = [
                    lhs.dims.contains(&label),
                    rhs.dims.contains(&label),
                    usize::from(label) < labels.rank,
                ];
                let found: Vec<_> = (0..3).filter(|&i| is_dim_of[i]).collect();
                ensure!(
                    found.len() == 1,
                    "window label {label} is a dim of {} values",
                    found.len()
                );
                *holder = found[0];
            }
            let [image, kernel, output] = holders;
            let distinct = image != kernel && kernel != output && output != image;
            ensure!(distinct, "window labels {tied:?} are not dims of three values");
            ensure!(*roles.get_or_insert(holders) == holders, "windows differ in who is the image");
            ensure!(window.stride > 0 && window.dilation > 0, "stride and dilation are at least 1");
            let [image, kernel, output] = tied.map(|label| labels.extent(label) as u128);
            let pad = window.pad as u128;
            let behind = pad.max(window.dilation as u128 * (kernel - 1));
            ensure!(
                window.stride as u128 * (output - 1) < image + pad + behind,
                "the last of {output} windows begins beyond the {image} input positions"
            );
        }
        Ok(())
    }

    fn piece(&self, piece: &Piece, out: &Value) -> Legal {
        let Piece { input, begin, at, extents } = piece;
        let value = self.value(input.value);
        let copied = Value::new(value.dtype, extents.iter().copied());
        ensure!(extents.len() == out.extents.len(), "{} extents", extents.len());
        let at: Vec<_> = at.iter().map(|&at| Offset::fixed(at)).collect();
        self.inside(&at, extents, &out.extents).map_err(|p| format!("result: {p}"))?;
        ensure!(input.dims.len() == value.extents.len(), "{} labels", input.dims.len());
        let labels = Labels::new(&copied);
        labels.below_rank(format_args!("the input"), input)?;
        for (i, label) in input.dims.iter().enumerate() {
            ensure!(!input.dims[..i].contains(label), "the input has label {label} twice");
        }
        let read: Extents = input.dims.iter().map(|&label| extents[usize::from(label)]).collect();
        self.inside(begin, &read, &value.extents).map_err(|p| format!("input: {p}"))
    }

    /// Whether `begin..begin + extents` is inside `whole` on every processor.
    fn inside(&self, begin: &[Offset], extents: &[usize], whole: &[usize]) -> Legal {
        let rank = extents.len();
        ensure!(
            begin.len() == rank && whole.len() == rank,
            "{} offsets into {} dims of a slice of {rank}",
            begin.len(),
            whole.len()
        );
        for (dim, offset) in begin.iter().enumerate() {
            let (first, extent) = (self.greatest(offset)?, extents[dim]);
            ensure!(
                first.checked_add(extent).is_some_and(|end| end <= whole[dim]),
                "{extent} elements from {first} on leave dim {dim} of {}",
                whole[dim]
            );
        }
        Ok(())
    }

    /// The size of a collective's group.
    fn group(&self, axes: &[Axis]) -> Result<usize, String> {
        ensure!(!axes.is_empty(), "the group has no axes");
        self.axes(axes)?;
        Ok(self.mesh.group_size(axes))
    }

    fn fold_over(&self, kind: ReduceKind, axes: &[Axis], input: ValueId) -> Result<usize, String> {
        let dtype = self.value(input).dtype;
        if kind != ReduceKind::Select {
            folds(kind, dtype)?;
        }
        let sums = matches!(kind, ReduceKind::Sum | ReduceKind::Prod);
        ensure!(!sums || dtype.reduction() == dtype, "a {kind} over a group is held in f32");
        self.group(axes)
    }

    pub(super) fn dim(&self, dim: u8, input: ValueId) -> Legal {
        let rank = self.value(input).extents.len();
        ensure!(usize::from(dim) < rank, "{input:?} has no dim {dim}");
        Ok(())
    }

    fn divides(&self, dim: u8, input: ValueId, parts: usize) -> Legal {
        self.dim(dim, input)?;
        let extent = self.value(input).extents[usize::from(dim)];
        ensure!(extent.is_multiple_of(parts), "{parts} parts do not divide dim {dim} of {extent}");
        Ok(())
    }

    /// Whether the out has the input's dtype, and its extents but for what `change` does.
    pub(super) fn keeps(
        &self,
        input: ValueId,
        out: ValueId,
        change: impl Fn(&mut Extents),
    ) -> Legal {
        self.dtypes(&[input, out])?;
        let mut extents = self.value(input).extents.clone();
        change(&mut extents);
        self.extents(out, &extents)
    }

    fn of_variable(&self, variable: VariableId, id: ValueId) -> Legal {
        let (wanted, found) = (&self.variables[variable.index()], self.value(id));
        ensure!(found.dtype == wanted.dtype, "{id:?} is {}, not {}", found.dtype, wanted.dtype);
        self.extents(id, &wanted.extents)
    }
}

/// Whether elements of one value may be folded so.
pub(super) fn folds(kind: ReduceKind, dtype: DType) -> Legal {
    ensure!(kind != ReduceKind::Select, "a selection is folded over a group only");
    let logical = matches!(kind, ReduceKind::All | ReduceKind::Any);
    ensure!(logical == (dtype == DType::Bool), "there is no {kind} of {dtype}");
    Ok(())
}

fn generates(generator: &Generator, global: &[usize], value: &Value) -> Legal {
    let dtype = value.dtype;
    match generator {
        Generator::Fill(scalar) => {
            ensure!(scalar.dtype() == dtype, "the fill is {}, not {dtype}", scalar.dtype());
        }
        Generator::Iota(dim) => {
            ensure!(usize::from(*dim) < global.len(), "there is no dim {dim}");
            ensure!(dtype != DType::Bool, "positions are not bool");
        }
        Generator::Table(array) => {
            ensure!(array.dtype() == dtype, "the table is {}, not {dtype}", array.dtype());
            ensure!(array.shape() == global, "the table is {:?}, not {global:?}", array.shape());
        }
        Generator::Uniform { low, high, .. } => {
            let finite = low.is_finite() && high.is_finite();
            ensure!(finite && low < high, "there are no numbers from {low} to {high}");
            let ends = f64::from(i32::MIN)..=f64::from(i32::MAX) + 1.0;
            let whole = |x: &f64| ends.contains(x) && x.fract() == 0.0;
            let counts = dtype == DType::I32 && whole(low) && whole(high);
            ensure!(dtype.is_float() || counts, "there are no random {dtype} from {low} to {high}");
        }
        Generator::Normal { mean, stddev, .. }
        | Generator::TruncatedNormal { mean, stddev, .. } => {
            ensure!(dtype.is_float(), "random numbers are floats, not {dtype}");
            let finite = mean.is_finite() && stddev.is_finite();
            ensure!(finite && *stddev > 0.0, "no normal has mean {mean} and deviation {stddev}");
        }
    }
    Ok(())
}
