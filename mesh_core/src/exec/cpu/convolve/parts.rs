//! Who is image, kernel and output of a convolution, and what its labels do.

use super::naive::window_labels;
use crate::exec::cpu::strided::{Labels, Nest};
use crate::program::Window;

/// Bytes of one chunk's images that should stay in the second-level cache.
pub(super) const CHUNK: usize = 256 << 10;

/// Operands by part: who is image, kernel and output image, and the labels by what they do.
pub(super) struct Parts {
    /// Operand (lhs, rhs, out) of image, kernel and output.
    pub(super) roles: [usize; 3],
    /// Labels of all three; strides of (image, kernel, output).
    pub(super) groups: Nest,
    pub(super) batch: Vec<usize>,
    pub(super) channels: Vec<usize>,
    pub(super) features: Vec<usize>,
}

impl Parts {
    /// `None` if the labels are not those of a usual convolution.
    pub(super) fn new(labels: &Labels, windows: &[Window]) -> Option<Self> {
        let only = |l: usize| {
            let mut having = (0..3).filter(|&k| labels.has[k][l]);
            having.next().filter(|_| having.next().is_none())
        };
        let mut roles = None;
        for window in windows {
            let [image, kernel, output] = window_labels(window).map(only);
            let of = [image?, kernel?, output?];
            let mut sorted = of;
            sorted.sort_unstable();
            if sorted != [0, 1, 2] || roles.is_some_and(|roles| roles != of) {
                return None;
            }
            roles = Some(of);
        }
        let roles = roles?;
        let tied = |l: usize| windows.iter().any(|w| window_labels(w).contains(&l));
        let pattern = |l: usize| roles.map(|k| labels.has[k][l]);
        let group = |want: [bool; 3]| labels.select(|l| !tied(l) && pattern(l) == want);
        let odd = labels.select(|l| {
            !tied(l) && labels.extents[l] > 1 && pattern(l).iter().filter(|&&has| has).count() < 2
        });
        if !odd.is_empty() {
            return None;
        }
        Some(Self {
            roles,
            groups: labels.nest(&group([true, true, true]), &roles).collapse(),
            batch: group([true, false, true]),
            channels: group([true, true, false]),
            features: group([false, true, true]),
        })
    }
}

/// Offsets of all combinations of some labels in two operands, in the memory order of the second.
pub(super) fn pairs(labels: &Labels, of: &[usize], operands: [usize; 2]) -> Vec<[isize; 2]> {
    let mut nest = labels.nest(of, &operands);
    nest.sort_by(1);
    nest.offsets(0).into_iter().zip(nest.offsets(1)).map(|(a, b)| [a, b]).collect()
}

/// Elements of an operand.
pub(super) fn labels_len(labels: &Labels, k: usize) -> usize {
    labels.select(|l| labels.has[k][l]).iter().map(|&l| labels.extents[l]).product()
}
