//! Steps that several processors meet for, or that wait.

use super::Builder;
use crate::names::{Axis, AxisList, ReduceKind};
use crate::program::forms::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Pairs, Permute, ReduceScatter, ReduceTo,
};
use crate::program::{FoldOrder, ValueId};
use smallvec::SmallVec;

impl Builder<'_> {
    /// The fold over a group, whole on every member.
    pub fn all_reduce(&mut self, kind: ReduceKind, axes: &[Axis], input: ValueId) -> ValueId {
        let (order, axes) = (FoldOrder::Group, AxisList::from_slice(axes));
        self.meet(AllReduce { kind, order, axes }, input, |_| {})
    }

    /// The members' parts joined along `dim`.
    pub fn all_gather(&mut self, axes: &[Axis], dim: usize, input: ValueId) -> ValueId {
        let (parts, axes) = (self.mesh.group_size(axes), AxisList::from_slice(axes));
        let form = AllGather { axes, dim: dim as u8 };
        self.meet(form, input, |extents| extents[dim] *= parts)
    }

    /// The fold over a group, each member its part along `dim`.
    pub fn reduce_scatter(
        &mut self,
        kind: ReduceKind,
        axes: &[Axis],
        dim: usize,
        input: ValueId,
    ) -> ValueId {
        let (parts, axes) = (self.mesh.group_size(axes), AxisList::from_slice(axes));
        let form = ReduceScatter { kind, axes, dim: dim as u8 };
        self.meet(form, input, |extents| extents[dim] /= parts)
    }

    /// Cut along `split`, exchanged, joined along `concat`.
    pub fn all_to_all(
        &mut self,
        axes: &[Axis],
        split: usize,
        concat: usize,
        input: ValueId,
    ) -> ValueId {
        let (parts, axes) = (self.mesh.group_size(axes), AxisList::from_slice(axes));
        let form = AllToAll { axes, split: split as u8, concat: concat as u8 };
        self.meet(form, input, |extents| {
            extents[split] /= parts;
            extents[concat] *= parts;
        })
    }

    /// The value of the group member `shift` places before this one.
    pub fn permute(&mut self, axes: &[Axis], shift: i64, wrap: bool, input: ValueId) -> ValueId {
        self.permute_pairs(axes, Pairs::Shift { by: shift, wrap }, input)
    }

    /// The value of the group member that is paired with this one; zeros if none is.
    pub fn permute_pairs(&mut self, axes: &[Axis], pairs: Pairs, input: ValueId) -> ValueId {
        let axes = AxisList::from_slice(axes);
        self.meet(Permute { axes, pairs }, input, |_| {})
    }

    /// The fold over a group, at its member `root` only.
    pub fn reduce_to(
        &mut self,
        kind: ReduceKind,
        axes: &[Axis],
        root: usize,
        input: ValueId,
    ) -> ValueId {
        let axes = AxisList::from_slice(axes);
        self.meet(ReduceTo { kind, axes, root }, input, |_| {})
    }

    /// What member `root` of a group has.
    pub fn broadcast(&mut self, axes: &[Axis], root: usize, input: ValueId) -> ValueId {
        let axes = AxisList::from_slice(axes);
        self.meet(Broadcast { axes, root }, input, |_| {})
    }

    /// Each value, once all of them are there.
    pub fn barrier(&mut self, inputs: &[ValueId]) -> SmallVec<[ValueId; 1]> {
        let types: Vec<_> = inputs.iter().map(|&id| self.value(id).clone()).collect();
        let outs: SmallVec<[_; 1]> =
            types.into_iter().map(|value| self.define(value.dtype, value.extents)).collect();
        let inputs: Vec<_> = inputs.iter().map(|&input| self.whole(input)).collect();
        self.push(Barrier, inputs, &outs);
        outs
    }

    /// Waits here for the collective that makes a value, which is thus only begun where it stands.
    pub fn wait(&mut self, value: ValueId) {
        let block = &mut self.program.block;
        if let Some(step) = block.steps.iter().find(|step| step.outs.contains(&value)) {
            let step = block.awaiting(step);
            block.steps.push(step);
        }
    }
}
