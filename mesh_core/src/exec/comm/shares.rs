//! How an all-reduce is cut into shares, one of which each member folds, and in which order. Where a
//! share begins is part of what a ring's sum means, whatever carries the data.
#![allow(unsafe_code, reason = "folds buffers of the members")]

use std::ops::Range;

use super::collective::Part;
use super::fold::Fold;
use crate::program::FoldOrder;

/// Boundaries between shares are multiples of this many elements, so that no two members write to
/// one cache line.
const SHARE: usize = FoldOrder::SHARE;

/// The elements of `total` that `member` of so many folds.
pub(in crate::exec) fn share(member: usize, members: usize, total: usize) -> Range<usize> {
    let bound = |member| match member == members {
        true => total,
        false => total * member / members / SHARE * SHARE,
    };
    bound(member)..bound(member + 1)
}

/// Where a range of the parts' concatenation lies: index, part and range within the part.
pub(in crate::exec) fn pieces(
    parts: &[Part],
    range: Range<usize>,
) -> impl Iterator<Item = (usize, &Part, Range<usize>)> {
    let mut first = 0;
    parts.iter().enumerate().filter_map(move |(index, part)| {
        let begin = range.start.max(first) - first;
        let end = range.end.min(first + part.elements).saturating_sub(first);
        first += part.elements;
        (begin < end).then_some((index, part, begin..end))
    })
}

impl FoldOrder {
    /// What the members show, in the order in which share `share` is folded.
    pub(in crate::exec) fn arrange(
        self,
        share: usize,
        peers: &[*const u8],
        into: &mut [*const u8],
    ) {
        into.copy_from_slice(peers);
        if self == Self::Ring {
            into.rotate_left((share + 1) % peers.len());
        }
    }
}

/// Folds everything into the parts' outs, from each member's parts one after the other at `peers`.
/// `inputs` is room for as many pointers.
///
/// # Safety
///
/// Every peer's bytes hold all parts and are aligned to elements, the outs are as the parts say and
/// disjoint from them; nobody else writes to the first or touches the second.
pub(in crate::exec) unsafe fn fold_packed(
    fold: Fold,
    order: FoldOrder,
    peers: &[*const u8],
    inputs: &mut [*const u8],
    parts: &[Part],
) {
    let total = parts.iter().map(|part| part.elements).sum();
    let shares = match order {
        FoldOrder::Group => 1,
        FoldOrder::Ring => peers.len(),
    };
    for number in 0..shares {
        let range = if shares == 1 { 0..total } else { share(number, shares, total) };
        order.arrange(number, peers, inputs);
        for (index, part, range) in pieces(parts, range) {
            let before: usize = parts[..index].iter().map(|part| part.elements).sum();
            let (from, to) = ((before + range.start) * fold.size, range.start * fold.size);
            // SAFETY: the range lies within the part, whose elements every peer's bytes and the out hold;
            // the out is disjoint from those.
            unsafe { fold.run(inputs, from, &[part.out], to, range.len()) };
        }
    }
}
