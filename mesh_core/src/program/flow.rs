//! What flows through a step: the values it reads and defines, the group it meets.

use super::{Step, ValueId};
use crate::names::AxisList;
use smallvec::SmallVec;
use std::slice;

impl Step {
    /// The form's name, as printed.
    pub fn form(&self) -> &'static str {
        match self {
            Self::Map { .. } => "map",
            Self::Reduce { .. } => "reduce",
            Self::Contract { .. } => "contract",
            Self::Convolve { .. } => "convolve",
            Self::Move { .. } => "move",
            Self::Reshape { .. } => "reshape",
            Self::Generate { .. } => "generate",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::Sort { .. } => "sort",
            Self::Scan { .. } => "scan",
            Self::Call { .. } => "call",
            Self::AllReduce { .. } => "all_reduce",
            Self::AllGather { .. } => "all_gather",
            Self::ReduceScatter { .. } => "reduce_scatter",
            Self::AllToAll { .. } => "all_to_all",
            Self::Permute { .. } => "permute",
            Self::ReduceTo { .. } => "reduce_to",
            Self::Broadcast { .. } => "broadcast",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Barrier { .. } => "barrier",
            Self::Await { .. } => "await",
            Self::Loop(_) => "loop",
        }
    }

    /// The group of a collective; `None` for local forms.
    pub fn axes(&self) -> Option<&AxisList> {
        match self {
            Self::AllReduce { axes, .. }
            | Self::AllGather { axes, .. }
            | Self::ReduceScatter { axes, .. }
            | Self::AllToAll { axes, .. }
            | Self::Permute { axes, .. }
            | Self::ReduceTo { axes, .. }
            | Self::Broadcast { axes, .. } => Some(axes),
            _ => None,
        }
    }

    /// Values read, with repetitions, in a fixed order.
    pub fn inputs(&self) -> SmallVec<[ValueId; 4]> {
        match self {
            Self::Map { inputs, .. } => inputs.iter().map(|o| o.value).collect(),
            Self::Sort { inputs, .. } => inputs.iter().map(|o| o.value).collect(),
            Self::Gather { input: one, indices, .. }
            | Self::Scatter { updates: one, indices, .. } => {
                SmallVec::from_slice(&[one.value, indices.value])
            }
            Self::Reduce { input, .. } => SmallVec::from_slice(&[input.value]),
            Self::Contract { lhs, rhs, .. } | Self::Convolve { lhs, rhs, .. } => {
                SmallVec::from_slice(&[lhs.value, rhs.value])
            }
            Self::Move { pieces, .. } => pieces.iter().map(|p| p.input.value).collect(),
            Self::AllReduce { inputs, .. }
            | Self::Barrier { inputs, .. }
            | Self::Generate { salts: inputs, .. } => inputs.iter().copied().collect(),
            Self::Call { inputs, .. } => inputs.iter().copied().collect(),
            Self::Await { inputs, begun } => inputs.iter().chain(begun).copied().collect(),
            Self::Loop(rounds) => rounds.inputs().copied().collect(),
            Self::Reshape { input, .. }
            | Self::Scan { input, .. }
            | Self::AllGather { input, .. }
            | Self::ReduceScatter { input, .. }
            | Self::AllToAll { input, .. }
            | Self::Permute { input, .. }
            | Self::ReduceTo { input, .. }
            | Self::Broadcast { input, .. }
            | Self::Write { input, .. } => SmallVec::from_slice(&[*input]),
            Self::Read { .. } => SmallVec::new(),
        }
    }

    /// Values defined.
    pub fn outs(&self) -> &[ValueId] {
        match self {
            Self::Map { outs, .. }
            | Self::Sort { outs, .. }
            | Self::Call { outs, .. }
            | Self::AllReduce { outs, .. }
            | Self::Barrier { outs, .. } => outs,
            Self::Loop(rounds) => &rounds.outs,
            Self::Reduce { out, .. }
            | Self::Contract { out, .. }
            | Self::Convolve { out, .. }
            | Self::Move { out, .. }
            | Self::Reshape { out, .. }
            | Self::Generate { out, .. }
            | Self::Gather { out, .. }
            | Self::Scatter { out, .. }
            | Self::Scan { out, .. }
            | Self::AllGather { out, .. }
            | Self::ReduceScatter { out, .. }
            | Self::AllToAll { out, .. }
            | Self::Permute { out, .. }
            | Self::ReduceTo { out, .. }
            | Self::Broadcast { out, .. }
            | Self::Read { out, .. } => slice::from_ref(out),
            Self::Write { .. } | Self::Await { .. } => &[],
        }
    }

    /// Visits every value read, so that a pass can replace it.
    pub fn each_input(&mut self, mut visit: impl FnMut(&mut ValueId)) {
        match self {
            Self::Map { inputs, .. } => inputs.iter_mut().for_each(|o| visit(&mut o.value)),
            Self::Sort { inputs, .. } => inputs.iter_mut().for_each(|o| visit(&mut o.value)),
            Self::Gather { input: one, indices, .. }
            | Self::Scatter { updates: one, indices, .. } => {
                visit(&mut one.value);
                visit(&mut indices.value);
            }
            Self::Reduce { input, .. } => visit(&mut input.value),
            Self::Contract { lhs, rhs, .. } | Self::Convolve { lhs, rhs, .. } => {
                visit(&mut lhs.value);
                visit(&mut rhs.value);
            }
            Self::Move { pieces, .. } => {
                pieces.iter_mut().for_each(|piece| visit(&mut piece.input.value));
            }
            Self::AllReduce { inputs, .. }
            | Self::Barrier { inputs, .. }
            | Self::Generate { salts: inputs, .. } => {
                inputs.iter_mut().for_each(visit);
            }
            Self::Call { inputs, .. } => inputs.iter_mut().for_each(visit),
            Self::Await { inputs, begun } => inputs.iter_mut().chain(begun).for_each(visit),
            Self::Loop(rounds) => rounds.inputs_mut().for_each(visit),
            Self::Reshape { input, .. }
            | Self::Scan { input, .. }
            | Self::AllGather { input, .. }
            | Self::ReduceScatter { input, .. }
            | Self::AllToAll { input, .. }
            | Self::Permute { input, .. }
            | Self::ReduceTo { input, .. }
            | Self::Broadcast { input, .. }
            | Self::Write { input, .. } => visit(input),
            Self::Read { .. } => {}
        }
    }

    /// Visits every value defined, so that a pass can renumber it.
    pub fn each_out(&mut self, mut visit: impl FnMut(&mut ValueId)) {
        match self {
            Self::Map { outs, .. }
            | Self::Sort { outs, .. }
            | Self::Call { outs, .. }
            | Self::AllReduce { outs, .. }
            | Self::Barrier { outs, .. } => outs.iter_mut().for_each(visit),
            Self::Loop(rounds) => rounds.outs.iter_mut().for_each(visit),
            Self::Reduce { out, .. }
            | Self::Contract { out, .. }
            | Self::Convolve { out, .. }
            | Self::Move { out, .. }
            | Self::Reshape { out, .. }
            | Self::Generate { out, .. }
            | Self::Gather { out, .. }
            | Self::Scatter { out, .. }
            | Self::Scan { out, .. }
            | Self::AllGather { out, .. }
            | Self::ReduceScatter { out, .. }
            | Self::AllToAll { out, .. }
            | Self::Permute { out, .. }
            | Self::ReduceTo { out, .. }
            | Self::Broadcast { out, .. }
            | Self::Read { out, .. } => visit(out),
            Self::Write { .. } | Self::Await { .. } => {}
        }
    }

    /// Whether it does something besides defining its outs.
    pub fn has_effect(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Await { .. })
    }

    /// The await of a collective.
    pub fn awaiting(&self) -> Self {
        Self::Await { inputs: self.inputs().into_iter().collect(), begun: self.outs().into() }
    }
}
