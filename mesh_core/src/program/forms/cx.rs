//! What a form's rules look at: a step where it stands.

use crate::names::{Axis, DType, Mesh, ReduceKind};
use crate::program::{Block, Extents, Offset, Operand, Step, Value, ValueId, VariableType};
use smallvec::SmallVec;
use std::fmt::Display;
use std::sync::LazyLock;

/// The legality of one thing, or what is wrong with it.
pub(in crate::program) type Legal = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
pub(in crate::program) use ensure;

/// A step where it stands.
#[derive(Clone, Copy)]
pub(crate) struct StepCx<'a> {
    pub(crate) block: &'a Block,
    pub(crate) step: &'a Step,
    pub(crate) mesh: &'a Mesh,
    pub(crate) variables: &'a [VariableType],
}

impl<'a> StepCx<'a> {
    pub(in crate::program) fn value(&self, id: ValueId) -> &'a Value {
        self.block.value(id)
    }

    /// The type of input `i`; that of nothing if there is none.
    pub(in crate::program) fn input(&self, i: usize) -> &'a Value {
        self.step.inputs.get(i).map_or(nothing(), |input| self.value(input.value))
    }

    /// The type of out `i`; that of nothing if there is none.
    pub(in crate::program) fn out(&self, i: usize) -> &'a Value {
        self.step.outs.get(i).map_or(nothing(), |&out| self.value(out))
    }

    /// Whether there are so many inputs and outs.
    pub(in crate::program) fn counts(&self, inputs: usize, outs: usize) -> Legal {
        let (read, made) = (self.step.inputs.len(), self.step.outs.len());
        ensure!(read == inputs, "{read} inputs instead of {inputs}");
        ensure!(made == outs, "{made} outs instead of {outs}");
        Ok(())
    }

    /// Whether there is an out for each input, and at least one.
    pub(in crate::program) fn pairs(&self) -> Legal {
        let (count, made) = (self.step.inputs.len(), self.step.outs.len());
        ensure!(count == made && count > 0, "{count} inputs, but {made} outs");
        Ok(())
    }

    /// Whether all values have the dtype of the first.
    pub(in crate::program) fn dtypes(&self, values: &[ValueId]) -> Legal {
        let wanted = self.value(values[0]).dtype;
        for &id in values {
            let dtype = self.value(id).dtype;
            ensure!(dtype == wanted, "{id:?} is {dtype}, but {:?} is {wanted}", values[0]);
        }
        Ok(())
    }

    /// Whether the step's values have one dtype.
    pub(in crate::program) fn one_dtype(&self) -> Legal {
        self.dtypes(&self.step.values().collect::<SmallVec<[_; 4]>>())
    }

    pub(in crate::program) fn extents(&self, id: ValueId, wanted: &[usize]) -> Legal {
        let found = self.value(id).extents.as_slice();
        ensure!(found == wanted, "{id:?} is {found:?}, not {wanted:?}");
        Ok(())
    }

    /// Whether out `i` has the dtype of input `i`, and its extents but for what `change` does.
    pub(in crate::program) fn keeps(&self, i: usize, change: impl Fn(&mut Extents)) -> Legal {
        let (input, out) = (self.step.inputs[i].value, self.step.outs[i]);
        self.dtypes(&[input, out])?;
        let mut extents = self.value(input).extents.clone();
        change(&mut extents);
        self.extents(out, &extents)
    }

    /// Whether input 0 has a dim.
    pub(in crate::program) fn dim(&self, dim: u8) -> Legal {
        let rank = self.input(0).extents.len();
        ensure!(usize::from(dim) < rank, "{:?} has no dim {dim}", self.step.inputs[0].value);
        Ok(())
    }

    /// Whether a dim of input 0 can be cut into equal parts.
    pub(in crate::program) fn divides(&self, dim: u8, parts: usize) -> Legal {
        self.dim(dim)?;
        let extent = self.input(0).extents[usize::from(dim)];
        ensure!(extent.is_multiple_of(parts), "{parts} parts do not divide dim {dim} of {extent}");
        Ok(())
    }

    /// Whether a list of axes is of the mesh and names none twice; it may be empty.
    pub(in crate::program) fn axes(&self, axes: &[Axis]) -> Legal {
        check_axes(self.mesh, axes)
    }

    /// The size of a collective's group, for which axes are legal.
    pub(in crate::program) fn group(&self, axes: &[Axis]) -> Result<usize, String> {
        ensure!(!axes.is_empty(), "the group has no axes");
        self.axes(axes)?;
        Ok(self.mesh.group_size(axes))
    }

    /// The size of a group over which input `i` may be folded.
    pub(in crate::program) fn fold_over(
        &self,
        kind: ReduceKind,
        axes: &[Axis],
        i: usize,
    ) -> Result<usize, String> {
        let dtype = self.input(i).dtype;
        if kind != ReduceKind::Select {
            folds(kind, dtype)?;
        }
        let sums = matches!(kind, ReduceKind::Sum | ReduceKind::Prod);
        ensure!(!sums || dtype.reduction() == dtype, "a {kind} over a group is held in f32");
        self.group(axes)
    }

    /// Whether a group has a member of that index.
    pub(in crate::program) fn member(&self, members: usize, root: usize) -> Legal {
        ensure!(root < members, "a group of {members} has no member {root}");
        Ok(())
    }

    /// The greatest position an offset takes on any processor.
    pub(in crate::program) fn greatest(&self, offset: &Offset) -> Result<usize, String> {
        self.axes(&offset.axes)?;
        let last = self.mesh.group_size(&offset.axes) as i64 - 1;
        let along = offset.scale.checked_mul(last).and_then(|along| isize::try_from(along).ok());
        let at_last = along.and_then(|along| offset.base.checked_add_signed(along));
        // Positions are linear in the group index: first and last are the extremes.
        at_last.map(|at| at.max(offset.base)).ok_or_else(|| {
            let range = if offset.scale < 0 { "goes below 0" } else { "overflows" };
            format!("an offset {range}")
        })
    }

    /// Whether `begin..begin + extents` is inside `whole` on every processor.
    pub(in crate::program) fn inside(
        &self,
        begin: &[Offset],
        extents: &[usize],
        whole: &[usize],
    ) -> Legal {
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

    /// Bytes of the values read and defined.
    pub(in crate::program) fn bytes(&self) -> u64 {
        self.step.values().map(|id| self.value(id).bytes() as u64).sum()
    }

    /// Bytes of the values read.
    pub(in crate::program) fn bytes_read(&self) -> u64 {
        self.step.reads().map(|id| self.value(id).bytes() as u64).sum()
    }

    /// The number of members that the processor meets.
    pub(in crate::program) fn members(&self) -> u64 {
        self.step.axes().map_or(1, |axes| self.mesh.group_size(axes)) as u64
    }

    /// What a processor receives of so many bytes, of which every member holds an equal share.
    pub(in crate::program) fn of_others(&self, size: u64) -> u64 {
        (size * (self.members() - 1)).div_ceil(self.members())
    }

    /// Input `i` with its labels as letters: `%4[a, k]`.
    pub(in crate::program) fn labelled(&self, i: usize) -> String {
        let Some(Operand { value, dims }) = self.step.inputs.get(i) else { return "?".to_owned() };
        format!("{value:?}[{}]", joined(dims.iter().map(|&label| self.letter(label))))
    }

    /// All inputs with their labels.
    pub(in crate::program) fn all_labelled(&self) -> String {
        joined((0..self.step.inputs.len()).map(|i| self.labelled(i)))
    }

    /// All inputs by name.
    pub(in crate::program) fn names(&self) -> String {
        joined(self.step.reads().map(|id| format!("{id:?}")))
    }

    /// The letter of a label: result dims from `a` on, folded dims from `k` on.
    pub(in crate::program) fn letter(&self, label: u8) -> String {
        let rank = self.step.outs.first().map_or(0, |&out| self.value(out).extents.len());
        letter(label, rank)
    }

    /// The names of a group's axes.
    pub(in crate::program) fn over(&self) -> String {
        self.step.axes().map(|axes| self.mesh.list(axes)).unwrap_or_default()
    }

    pub(in crate::program) fn offsets(&self, offsets: &[Offset]) -> String {
        format!("[{}]", joined(offsets.iter().map(|offset| self.offset(offset))))
    }

    pub(in crate::program) fn offset(&self, offset: &Offset) -> String {
        let group = self.mesh.list(&offset.axes);
        let moving = match offset.axes.len() {
            0 => return offset.base.to_string(),
            1 => format!("{group}*{}", offset.scale),
            _ => format!("({group})*{}", offset.scale),
        };
        if offset.base == 0 { moving } else { format!("{} + {moving}", offset.base) }
    }

    /// `k = %4[a] - rows*4`: the position along a label that indices mean.
    pub(in crate::program) fn lookup(&self, indices: usize, dim: u8, begin: &Offset) -> String {
        let text = format!("{} = {}", self.letter(dim), self.labelled(indices));
        if *begin == Offset::default() { text } else { format!("{text} - {}", self.offset(begin)) }
    }
}

/// The type of what an illegal step lacks.
fn nothing<'a>() -> &'a Value {
    static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::new(DType::F32, []));
    &NOTHING
}

pub(super) fn joined(items: impl Iterator<Item = impl Display>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn letter(label: u8, rank: usize) -> String {
    let label = usize::from(label);
    let place = match label.checked_sub(rank) {
        None => label,
        Some(folded) => folded + rank.max(usize::from(b'k' - b'a')),
    };
    match u8::try_from(place) {
        Ok(place) if place < 26 => char::from(b'a' + place).to_string(),
        _ => format!("l{label}"),
    }
}

/// Whether a list of axes is of the mesh and names none twice; it may be empty.
pub(in crate::program) fn check_axes(mesh: &Mesh, axes: &[Axis]) -> Legal {
    let count = mesh.axes().count();
    for (i, axis) in axes.iter().enumerate() {
        ensure!(axis.index() < count, "{axis:?} is not an axis of {mesh}");
        ensure!(!axes[..i].contains(axis), "axis {} is listed twice", mesh.name(*axis));
    }
    Ok(())
}

/// Whether elements of one value may be folded so.
pub(in crate::program) fn folds(kind: ReduceKind, dtype: DType) -> Legal {
    ensure!(kind != ReduceKind::Select, "a selection is folded over a group only");
    let logical = matches!(kind, ReduceKind::All | ReduceKind::Any);
    ensure!(logical == (dtype == DType::Bool), "there is no {kind} of {dtype}");
    Ok(())
}

/// The extent of each label met so far.
pub(in crate::program) struct Labels {
    extents: SmallVec<[(u8, usize); 8]>,
    rank: usize,
}

impl Labels {
    /// The result's.
    pub(in crate::program) fn new(out: &Value) -> Self {
        let extents = (0..).zip(out.extents.iter().copied()).collect();
        Self { extents, rank: out.extents.len() }
    }

    /// Whether an operand's dims have the extents of their labels.
    pub(in crate::program) fn operand(
        &mut self,
        name: impl Display,
        operand: &Operand,
        value: &Value,
    ) -> Legal {
        for (&label, &extent) in operand.dims.iter().zip(&value.extents) {
            let known = self.known(label).unwrap_or_else(|| {
                self.extents.push((label, extent));
                extent
            });
            ensure!(known == extent, "label {label} is {known}, but {extent} in {name}");
        }
        Ok(())
    }

    /// Whether an operand's labels are the result's.
    pub(in crate::program) fn below_rank(&self, name: impl Display, operand: &Operand) -> Legal {
        for &label in &operand.dims {
            ensure!(usize::from(label) < self.rank, "{name} has label {label} of no result dim");
        }
        Ok(())
    }

    /// Whether each result label is in an operand or one of `besides`.
    pub(in crate::program) fn covered(&self, operands: &[Operand], besides: &[u8]) -> Legal {
        for label in (0..).take(self.rank).filter(|label| !besides.contains(label)) {
            let found = operands.iter().any(|operand| operand.dims.contains(&label));
            ensure!(found, "result dim {label} is in no operand");
        }
        Ok(())
    }

    fn known(&self, label: u8) -> Option<usize> {
        self.extents.iter().find(|(known, _)| *known == label).map(|&(_, extent)| extent)
    }

    pub(in crate::program) fn extent(&self, label: u8) -> usize {
        self.known(label).unwrap_or_default()
    }

    /// Whether a label is the result's.
    pub(in crate::program) fn is_result(&self, label: u8) -> bool {
        usize::from(label) < self.rank
    }

    /// Number of points of the iteration space, without some labels.
    pub(in crate::program) fn points(&self, without: impl Fn(u8) -> bool) -> u64 {
        let counted = self.extents.iter().filter(|(label, _)| !without(*label));
        counted.fold(1, |points: u64, &(_, extent)| points.saturating_mul(extent as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::letter;

    #[test]
    fn labels_are_letters_while_there_are_letters() {
        let letters: Vec<_> = [0, 3, 4, 8, 19, 20].map(|label| letter(label, 4)).into();
        assert_eq!(letters, ["a", "d", "k", "o", "z", "l20"]);
        assert_eq!(letter(12, 12), "m");
    }
}
