//! How much of an operation's work each processor does.

use crate::graph::Signature;
use crate::names::{Axis, AxisList, DimName, Mesh, Placement};
use crate::program::Uneven;

/// The busiest processor of uneven work does this part of the mean more, at least: less is not worth a word.
const WORTH: f64 = 0.1;

/// An operation under a layout: where its tensors lie.
#[derive(Clone, Copy, Debug)]
pub struct PlacedCx<'a> {
    pub(super) signature: Signature<'a>,
    pub(super) mesh: &'a Mesh,
    /// Of the outputs, then of the inputs.
    pub(super) placements: &'a [&'a Placement],
}

impl PlacedCx<'_> {
    /// Global types.
    pub fn signature(&self) -> Signature<'_> {
        self.signature
    }

    /// The axes that a dim of input `i` is split over, major first; none if there is no such input or dim.
    pub fn input_axes(&self, i: usize, dim: DimName) -> &[Axis] {
        let placement = self.placements.get(self.signature.outputs.len() + i);
        placement.map_or(&[], |placement| placement.axes(dim))
    }

    /// How many processors there are along some axes.
    pub fn processors(&self, axes: &[Axis]) -> usize {
        self.mesh.group_size(axes)
    }
}

/// How much of an operation's work each of the processors along some axes does.
#[derive(Clone, PartialEq, Debug)]
pub struct Shares {
    /// The axes, major first.
    pub axes: AxisList,
    /// What each processor does, in order along the axes.
    pub work: Vec<u64>,
    /// What is counted, in the plural.
    pub unit: String,
    /// What the user could do to make it even; empty if nothing is known to.
    pub remedy: String,
}

impl Shares {
    /// What is to be said of it, if it is uneven.
    pub(super) fn uneven(self) -> Option<Uneven> {
        let Self { axes, work, unit, remedy } = self;
        let (busiest, &most) =
            work.iter().enumerate().max_by_key(|&(i, work)| (*work, std::cmp::Reverse(i)))?;
        let (processors, total) = (work.len(), work.iter().sum());
        let found = Uneven { axes, processors, busiest, most, total, unit, remedy };
        (most as f64 > (1.0 + WORTH) * found.mean()).then_some(found)
    }
}
