//! The dims over which Adafactor averages its second moment.

use mesh_core::names::Dimension;

/// Which variables keep, instead of their second moment, its means over each of two dims. Stacked
/// dims do not count as dims here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factoring {
    /// No variable.
    Never,
    /// Variables of at least two dims: over the two largest; of equal dims the first is taken (Mesh
    /// TensorFlow).
    TwoLargest {
        /// Variables whose second largest dim is smaller than this are not factored.
        least: usize,
    },
    /// Variables of at least two dims: over the last two (tensor2tensor since 2019).
    LastTwo,
    /// Variables of exactly two dims (tensor2tensor of 2018).
    Matrices,
}

impl Factoring {
    /// The dims that the row means and the column means are taken over; `None` where the second
    /// moment is kept whole.
    pub(super) fn dims(self, dims: &[Dimension]) -> Option<[Dimension; 2]> {
        let mut sorted = dims.to_vec();
        sorted.sort_by_key(|dim| std::cmp::Reverse(dim.size));
        match (self, dims, &sorted[..]) {
            (Self::TwoLargest { least }, _, &[first, second, ..]) if second.size >= least => {
                Some([first, second])
            }
            (Self::LastTwo, &[.., row, column], _) | (Self::Matrices, &[row, column], _) => {
                Some([column, row])
            }
            _ => None,
        }
    }
}
