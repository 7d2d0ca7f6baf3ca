//! Tensors whose dims have labels.

use super::writer::{Tensor, Writer};
use crate::program::Offset;
use std::iter::zip;

/// The positions of dims, in the order of what each is sorted by.
pub(super) fn sorted(labels: &[u8]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&dim| labels[dim]);
    order
}

impl Writer<'_> {
    /// A tensor with a dim for each label of a space, in the order of the labels: those that it lacks are
    /// new.
    pub(in crate::program) fn spread(
        &mut self,
        x: &Tensor,
        labels: &[u8],
        space: &[usize],
    ) -> Tensor {
        let order = sorted(labels);
        let turned = self.transposed(x, &order);
        let dims: Vec<usize> = order.iter().map(|&dim| usize::from(labels[dim])).collect();
        self.broadcast(&turned, &dims, space)
    }

    /// A tensor with its dims in the order of a list of labels, which are its own.
    pub(in crate::program) fn arranged(
        &mut self,
        x: &Tensor,
        labels: &[u8],
        wanted: &[u8],
    ) -> Tensor {
        let order = wanted.iter().filter_map(|label| labels.iter().position(|own| own == label));
        let order: Vec<usize> = order.collect();
        self.transposed(x, &order)
    }

    /// Positions on the present processor, as scalars of i32.
    pub(in crate::program) fn offsets(&mut self, offsets: &[Offset]) -> Vec<Tensor> {
        offsets.iter().map(|offset| self.offset(offset)).collect()
    }

    /// The part of a tensor that begins at a position of the present processor.
    pub(in crate::program) fn part(
        &mut self,
        x: &Tensor,
        begin: &[Offset],
        extents: &[usize],
    ) -> Tensor {
        if begin.iter().all(|offset| offset.axes.is_empty()) {
            let begin: Vec<_> = begin.iter().map(|offset| offset.base).collect();
            return self.sliced(x, &begin, extents);
        }
        if x.extents[..] == *extents {
            return x.clone();
        }
        let begin = self.offsets(begin);
        self.sliced_at(x, &begin, extents)
    }
}

/// The labels of a list that another has, or lacks.
pub(in crate::program) fn those(labels: &[u8], other: &[u8], has: bool) -> Vec<u8> {
    labels.iter().copied().filter(|label| other.contains(label) == has).collect()
}

/// The extents of labels among those of a tensor.
pub(in crate::program) fn extents_of(x: &Tensor, labels: &[u8], wanted: &[u8]) -> Vec<usize> {
    let of = |label: &u8| zip(labels, &x.extents).find(|(own, _)| *own == label).map(|(_, e)| *e);
    wanted.iter().filter_map(of).collect()
}
