//! Steps: what a processor does next.

use super::forms::Form;
use super::{Origin, Owners, ValueId};
use crate::names::{Axis, AxisList, Mesh};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// Sizes, one per dim.
pub type Extents = SmallVec<[usize; 6]>;
/// Dim labels, one per dim.
pub type Dims = SmallVec<[u8; 6]>;

/// What a processor does next: a form with its attributes, the values read and defined, who does it,
/// and the operation that asked for it.
///
/// Local forms read and write the processor's own values. Collective forms are met by every member
/// of the processor's group along their axes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What is done.
    pub form: Form,
    /// Values read, in the order that the form states.
    pub inputs: SmallVec<[Operand; 2]>,
    /// Values defined, in the order that the form states.
    pub outs: SmallVec<[ValueId; 1]>,
    /// Who does it.
    pub owners: Owners,
    /// The operation that asked for it.
    pub origin: Arc<Origin>,
}

impl Step {
    /// The values read, with repetitions, in order.
    pub fn reads(&self) -> impl ExactSizeIterator<Item = ValueId> + Clone + '_ {
        self.inputs.iter().map(|input| input.value)
    }

    /// Whether a value is among those read.
    pub fn has_input(&self, value: ValueId) -> bool {
        self.inputs.iter().any(|input| input.value == value)
    }

    /// The values read and defined.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.reads().chain(self.outs.iter().copied())
    }

    /// The group of a collective; `None` for local forms.
    pub fn axes(&self) -> Option<&AxisList> {
        self.form.axes()
    }

    /// A step of another form with the same owners and origin.
    pub(crate) fn instead(
        &self,
        form: impl Into<Form>,
        inputs: impl IntoIterator<Item = Operand>,
        outs: &[ValueId],
    ) -> Self {
        Self {
            form: form.into(),
            inputs: inputs.into_iter().collect(),
            outs: SmallVec::from_slice(outs),
            owners: self.owners.clone(),
            origin: Arc::clone(&self.origin),
        }
    }
}

/// An input of a step with a label for each of its dims.
///
/// Labels name the dims of the step's iteration space. The result's dims are labelled `0..rank`
/// in declared order; labels from `rank` on are summed (or otherwise reduced) away. A label that an
/// input lacks is broadcast. Forms that meet values whole label dim `i` with `i`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Operand {
    /// The value read.
    pub value: ValueId,
    /// One label per dim of the value, in declared order; no label twice.
    pub dims: Dims,
}

impl Operand {
    /// A value of so many dims as it is: dim `i` has label `i`.
    pub fn whole(value: ValueId, rank: usize) -> Self {
        Self { value, dims: (0..rank as u8).collect() }
    }

    /// Whether dim `i` has label `i`.
    pub fn is_whole(&self) -> bool {
        self.dims.iter().enumerate().all(|(i, &label)| i == usize::from(label))
    }
}

/// A position that may depend on the processor: `base + group_index(axes) * scale`, in elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Offset {
    /// The same on every processor.
    pub base: usize,
    /// Axes whose group index counts, major first.
    pub axes: AxisList,
    /// Elements per group index; below 0, positions go back.
    pub scale: i64,
}

impl Offset {
    /// The same position on every processor.
    pub fn fixed(base: usize) -> Self {
        Self { base, ..Self::default() }
    }

    /// `group_index(axes) * scale`.
    pub fn sliced(axes: &[Axis], scale: usize) -> Self {
        if axes.is_empty() {
            return Self::default();
        }
        Self { base: 0, axes: axes.iter().copied().collect(), scale: scale as i64 }
    }

    /// The position on one processor.
    pub fn at(&self, mesh: &Mesh, processor: usize) -> usize {
        let along = mesh.group_index(processor, &self.axes) as i64 * self.scale;
        self.base.saturating_add_signed(along as isize)
    }
}
